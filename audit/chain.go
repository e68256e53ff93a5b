package audit

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sandboxmcp/sandboxmcp/audit/pack"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// chain is the end of the verified rows. It finds the fault of the next row.
type chain struct {
	next       int64  // number of the next row
	head, prev string // hashes of the two rows before it
}

// verifyRow verifies r as the next row, and returns its fault or nil.
func (c *chain) verifyRow(r Row) *Bad {
	hash := hashRow(r)
	switch {
	case r.Seq < c.next:
		return &Bad{r.Seq, "precedes the first row"}
	case r.Seq > c.next:
		return &Bad{c.next, fmt.Sprintf("is missing: the row after row %d is row %d", c.next-1, r.Seq)}
	case len(r.Prev) == 2*linkSize && r.Seq > 1:
		c.next, c.head = c.next-1, c.prev
		return &Bad{r.Seq - 1, fmt.Sprintf("was replaced, or rows behind it were taken out: row %d was chained to another row in its place",
			r.Seq)}
	case r.Hash != hex.EncodeToString(hash[:]):
		return &Bad{r.Seq, "was edited: its hash does not match what it says"}
	case r.Prev != c.head && r.Seq == 1:
		return &Bad{1, "was replaced: it follows on a row that is not there"}
	case r.Prev != c.head: // both rows are valid by themselves, and the later one follows another row
		c.next, c.head = c.next-1, c.prev
		return &Bad{r.Seq - 1, fmt.Sprintf("was replaced: row %d was chained to another row in its place", r.Seq)}
	}
	c.next, c.head, c.prev = c.next+1, r.Hash, c.head
	return nil
}

// traceMoved distinguishes a moved row from one that follows a replaced one: the row that a moved row follows is still
// in the log. before is the chain before r.
func (v *verification) traceMoved(ctx context.Context, r Row, before chain, bad *Bad) error {
	if r.Seq != before.next || len(r.Prev) != 2*linkSize {
		return nil
	}
	part, _ := hex.DecodeString(r.Prev) // hex, since scanRow encoded it
	seq, err := statefile.One[int64](ctx, v.l.db, fmt.Sprintf("SELECT seq FROM audit WHERE substr(hash, 1, %d) = ? LIMIT 1", linkSize), part)
	switch {
	case err == nil:
		*bad = Bad{r.Seq, fmt.Sprintf("was moved here: it follows on what is now row %d", seq)}
		v.chain = before
	case errors.Is(err, sql.ErrNoRows), isContentError(err):
		return nil
	}
	return err
}

// isContentError reports whether err is about the content of the database, not about access to it.
func isContentError(err error) bool {
	if s, ok := errors.AsType[*sqlite.Error](err); ok {
		code := s.Code() & 0xff
		return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB || code == sqlite3.SQLITE_ERROR ||
			s.Code() == sqlite3.SQLITE_IOERR_SHORT_READ // the file is cut off
	}
	return errors.Is(err, errType) || errors.Is(err, pack.ErrPacked) || errors.Is(err, errDictionary)
}

const hashSize = sha256.Size

// hashPrefix starts the hashed bytes, so that a row's hash is never the hash of other data.
const hashPrefix = "sandboxmcp audit row 1\n"

// hashRow returns the hash that r must have.
func hashRow(r Row) [hashSize]byte {
	return sha256.Sum256(encodeRow(r))
}

// encodeRow returns the bytes of a row without its hash, which differ from those of every other row: the domain, the 32
// bytes of Prev, Seq and the nanoseconds of Time as eight bytes each, big-endian, then Kind, Run, Namespace and Data,
// each behind its length, which is eight bytes too.
func encodeRow(r Row) []byte {
	prev, _ := hex.DecodeString(r.Prev) // always hex
	b := make([]byte, 0, 128+len(r.Kind)+len(r.Run)+len(r.Namespace)+len(r.Data))
	return appendRow(b, prev, r.Seq, r.Time.UnixNano(), []byte(r.Kind), []byte(r.Run), []byte(r.Namespace), r.Data)
}

func appendRow(b, prev []byte, seq, nanos int64, texts ...[]byte) []byte {
	b = append(append(b, hashPrefix...), prev...)
	b = binary.BigEndian.AppendUint64(b, uint64(seq))
	b = binary.BigEndian.AppendUint64(b, uint64(nanos))
	for _, s := range texts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}
