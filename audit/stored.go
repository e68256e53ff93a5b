package audit

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/pack"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// stored is a row as stored in the table.
type stored struct {
	Row     // Prev is only a part of the hash if the row before is not the one that it follows
	receipt []byte
}

// linkSize is the number of stored bytes of the previous row's hash: enough to compare with that row.
const linkSize = 4

// storedPrev returns the stored part of the previous row's hash: all of it if that row is not in the file.
func storedPrev(prev []byte, first bool) []byte {
	if first {
		return prev
	}
	return prev[:linkSize]
}

// fullPrev returns the previous row's hash if it starts with the stored part, or else the part.
func fullPrev(part, before []byte) []byte {
	if len(part) == linkSize && bytes.HasPrefix(before, part) {
		return before
	}
	return part
}

// storedColumns are the columns for scanRow.
const storedColumns = "seq, time, kind, run, namespace, prev, (SELECT b.hash FROM audit b WHERE b.seq = audit.seq - 1), hash, receipt, data"

// scanner reads rows of the table.
type scanner struct {
	*pack.Codec
	receipts bool   // with their receipts
	buf      []byte // the last unpacked row
}

func (s *scanner) scanRow(rows *sql.Rows) (r stored, err error) {
	var nanos int64
	var prev, before, hash, signature, packed sql.RawBytes
	if err := rows.Scan(&r.Seq, &nanos, &r.Kind, &r.Run, &r.Namespace, &prev, &before, &hash, &signature, &packed); err != nil {
		if rows.Err() == nil { // otherwise ctx ended
			err = fmt.Errorf("%w: %v", errType, err)
		}
		return r, err
	}
	content, err := s.Unpack(packed, s.buf[:0])
	if err == nil && content.HasReceipt() != (signature != nil) {
		err = pack.ErrPacked
	}
	if err == nil && s.receipts && signature != nil {
		r.receipt, err = content.AppendReceipt(nil, signature)
	}
	if err != nil {
		return r, fmt.Errorf("row %d: %w", r.Seq, err)
	}
	s.buf = content
	r.Time = time.Unix(0, nanos).UTC()
	r.Data = json.RawMessage(bytes.Clone(content.Data()))
	r.Prev, r.Hash = hex.EncodeToString(fullPrev(prev, before)), hex.EncodeToString(hash)
	return r, nil
}

// packedRow is the stored form of a row's data and receipt.
type packedRow struct{ data, signature []byte }

// pack packs the rows of r, without a lock.
func (l *logFile) pack(ctx context.Context, r *request) error {
	p, err := l.codec(ctx)
	if err != nil {
		return err
	}
	r.packed = make([]packedRow, len(r.rows))
	for i := range r.rows {
		if r.packed[i].data, r.packed[i].signature, err = p.Pack(r.rows[i].Data, r.receipts[i]); err != nil {
			return err
		}
	}
	return nil
}

var errDictionary = errors.New("the dictionary that its rows are packed with was removed or changed: see sandboxmcp audit verify")

// codec returns the codec with the log's dictionary, which is read once.
func (l *logFile) codec(ctx context.Context) (*pack.Codec, error) {
	if p := l.packed.Load(); p != nil {
		return p, nil
	}
	text, err := statefile.One[[]byte](ctx, l.db, fmt.Sprintf("SELECT substr(text, 1, %d) FROM dictionary", pack.MaxDictionary+1))
	if errors.Is(err, sql.ErrNoRows) || err == nil && (len(text) == 0 || len(text) > pack.MaxDictionary) {
		err = errDictionary
	}
	if err != nil && l.damaged && isContentError(err) {
		text, err = []byte(pack.Dictionary), nil
	}
	if err != nil {
		return nil, err
	}
	l.packed.CompareAndSwap(nil, pack.New(text))
	return l.packed.Load(), nil
}
