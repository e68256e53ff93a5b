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

// stored is a row as the table has it.
type stored struct {
	Row     // its Prev is as far as it is known: shorter than a hash where the row before is not the one that it was chained to
	receipt []byte
}

// linkSize is how much of the hash of the row before is stored, in bytes: enough to see whether it is that of the row
// that is there.
const linkSize = 4

// storedPrev returns what is stored of the hash of the row before: all of it where that row is not in the file.
func storedPrev(prev []byte, first bool) []byte {
	if first {
		return prev
	}
	return prev[:linkSize]
}

// fullPrev returns the whole hash of the row before, of which the table has a part and the row before it all, or else the
// part.
func fullPrev(part, before []byte) []byte {
	if len(part) == linkSize && bytes.HasPrefix(before, part) {
		return before
	}
	return part
}

// storedColumns are those that scan reads.
const storedColumns = "seq, time, kind, run, namespace, prev, (SELECT b.hash FROM audit b WHERE b.seq = audit.seq - 1), hash, receipt, data"

// scanner reads rows of the table.
type scanner struct {
	*pack.Codec
	receipts bool   // with their receipts
	buf      []byte // what the last row was unpacked to
}

func (s *scanner) scanRow(rows *sql.Rows) (r stored, err error) {
	var nanos int64
	var prev, before, hash, signature, packed sql.RawBytes
	if err := rows.Scan(&r.Seq, &nanos, &r.Kind, &r.Run, &r.Namespace, &prev, &before, &hash, &signature, &packed); err != nil {
		if rows.Err() == nil { // else it was ctx
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

// packedRow is what the table has of a row's data and receipt.
type packedRow struct{ data, signature []byte }

// pack packs the rows of r. No lock is held meanwhile.
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
