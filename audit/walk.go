package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"
)

// rows verifies all rows: those in segments, and then those in the database.
func (v *verification) rows(ctx context.Context) (*Bad, error) {
	for _, s := range v.segments {
		if bad, err := v.segment(ctx, s); bad != nil || err != nil {
			return bad, err
		}
	}
	return v.live(ctx, v.head, true)
}

// live verifies the rows of the database, up to a number: their chain, and if whole is set, what is compared with it.
func (v *verification) live(ctx context.Context, last int64, whole bool) (*Bad, error) {
	for from := int64(math.MinInt64); ; from = v.chain.next {
		page, err := v.l.page(ctx, Filter{}, from, pageRows)
		var receipts map[int64][hashSize]byte
		var notes map[int64][]byte
		if whole && len(page) > 0 { // also where the row after these can't be read
			to := page[len(page)-1].Seq
			var failed error
			if receipts, failed = v.receipts(ctx, from, to); failed == nil {
				notes, failed = v.l.blobs(ctx, selectNotes, from, to)
			}
			if failed != nil { // which says nothing about a receipt
				page, err = nil, failed
			}
		}
		for _, r := range page {
			if r.Seq > last && v.chain.next > last {
				return nil, nil
			}
			if bad := v.chain.add(r); bad != nil {
				return bad, v.trace(ctx, r, bad)
			}
			if !whole {
				continue
			}
			sum, has := receipts[r.Seq]
			if bad := badReceipt(r, sum, has); bad != nil {
				return v.retreat(bad), nil
			}
			if bad, err := v.row(ctx, r, notes[r.Seq]); bad != nil || err != nil {
				return bad, err
			}
		}
		switch {
		case unreadable(err):
			return &Bad{v.chain.next, fmt.Sprintf("cannot be read: %v", err)}, nil
		case err != nil || v.chain.next > last:
			return nil, err
		case len(page) == 0 && whole:
			return &Bad{v.chain.next, "is missing, with all after it"}, nil
		case len(page) == 0:
			return nil, nil
		}
	}
}

// receipts returns the hashes of the receipts of rows.
func (v *verification) receipts(ctx context.Context, first, last int64) (map[int64][hashSize]byte, error) {
	m := map[int64][hashSize]byte{}
	var seq int64
	var envelope sql.RawBytes
	for err := range each(ctx, v.l.db, []any{&seq, &envelope}, selectReceipts, first, last) {
		if err != nil {
			return nil, err
		}
		m[seq] = sha256.Sum256(envelope)
	}
	return m, nil
}

// badReceipt finds a receipt that is not the one that a row speaks of.
func badReceipt(r Row, sum [hashSize]byte, has bool) *Bad {
	switch want := receiptHash(r.Data); {
	case want == nil && has:
		return &Bad{r.Seq, "has a receipt of which it says nothing"}
	case want != nil && !has:
		return &Bad{r.Seq, "has lost its receipt"}
	case want != nil && !bytes.Equal(want, sum[:]):
		return &Bad{r.Seq, "has another receipt than the one it came with"}
	}
	return nil
}

// retreat makes the row before the last one, which is bad, the last good row.
func (v *verification) retreat(bad *Bad) *Bad {
	v.chain.next, v.chain.head = v.chain.next-1, v.chain.prev
	return bad
}

// row adds the next row to the tree, and compares that with stored nodes and checkpoints, of which note is the one that
// the log has for that row.
func (v *verification) row(ctx context.Context, r Row, note []byte) (bad *Bad, err error) {
	v.clock(r)
	if r.Kind == sealedKind {
		v.sealings = append(v.sealings, r.Data)
	}
	hash, _ := hex.DecodeString(r.Hash)
	err = v.tree.add(leaf(hash), func(n node) (err error) {
		if bad == nil {
			bad, err = v.compareNode(ctx, n)
		}
		return err
	})
	if err != nil || bad != nil {
		return bad, err
	}
	if note != nil {
		p, err := v.ring.open(note)
		if err == nil && p.size != r.Seq {
			err = errors.New("it is for another row")
		}
		if err != nil {
			return v.retreat(&Bad{r.Seq, "the checkpoint there was changed: " + err.Error()}), nil
		}
		if bad := v.compare(point{p, "the checkpoint there"}, r.Hash, r.Time); bad != nil {
			return bad, nil
		}
	}
	return v.compareExternal(r.Hash, r.Time), nil
}

// maxBack is the time by which a row may be older than the row before without a remark: clocks are set right all the
// time.
const maxBack = time.Second

// clock notes a row that goes back in time.
func (v *verification) clock(r Row) {
	if v.at.Sub(r.Time) > maxBack {
		if v.backs++; v.backs == 1 {
			v.back = fmt.Sprintf("row %d is of %s, and the one before it of %s", r.Seq, r.Time.Format(time.RFC3339), v.at.Format(time.RFC3339))
		}
	}
	v.at = r.Time
}

// segment verifies the rows of a segment.
func (v *verification) segment(ctx context.Context, s Segment) (*Bad, error) {
	f, sum, err := openHashed(s.File)
	if errors.Is(err, fs.ErrNotExist) {
		return v.skip(ctx, s)
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	c, err := readSegmentRows(f)
	switch next := s.First + int64(len(c.rows)); {
	case len(c.rows) > 0 && c.rows[0].Prev != v.chain.head:
		return &Bad{s.First, fmt.Sprintf("was replaced: the segment file %s does not follow on the row before", s.File)}, nil
	case err != nil && next <= s.Last:
		c.bad = &Bad{next, fmt.Sprintf("cannot be read from %s: %v", s.File, err)}
	case c.bad != nil:
	case next <= s.Last:
		c.bad = &Bad{next, "is missing in " + s.File}
	case next > s.Last+1:
		c.bad = &Bad{s.Last + 1, "is in " + s.File + ", whose rows are listed as those before"}
	case c.times.Oldest != s.Oldest || c.times.Newest != s.Newest:
		c.bad = &Bad{s.First, fmt.Sprintf("was hidden, with all up to row %d: its segment is listed with other times than its rows have", s.Last)}
	case sum != s.SHA256 || err != nil:
		c.bad = &Bad{s.First, fmt.Sprintf("is in a segment file that was changed, with all up to row %d: %s", s.Last, s.File)}
	}
	if c.bad != nil {
		if n := c.bad.Seq - s.First; n > 0 && n <= int64(len(c.rows)) {
			v.chain.next, v.chain.head = c.bad.Seq, c.rows[n-1].Hash
		}
		return c.bad, nil
	}
	notes, err := v.l.blobs(ctx, selectNotes, s.First, s.Last)
	if err != nil {
		return nil, err
	}
	for _, r := range c.rows {
		v.chain = chain{next: r.Seq + 1, head: r.Hash, prev: v.chain.head}
		if bad, err := v.row(ctx, r, notes[r.Seq]); bad != nil || err != nil {
			return bad, err
		}
	}
	return v.compareSeam(ctx, s)
}

const selectReceipts = "SELECT seq, envelope FROM receipts WHERE seq BETWEEN ? AND ?"

const selectNotes = "SELECT size, note FROM checkpoints WHERE size BETWEEN ? AND ?"

// blobs returns what a query for numbers from first to last finds, by number.
func (l *Log) blobs(ctx context.Context, query string, first, last int64) (map[int64][]byte, error) {
	m := map[int64][]byte{}
	var number int64
	var blob []byte
	for err := range each(ctx, l.db, []any{&number, &blob}, query, first, last) {
		if err != nil {
			return nil, err
		}
		m[number] = blob
	}
	return m, nil
}

// point is a checkpoint to compare the tree with.
type point struct {
	checkpoint
	name string
}
