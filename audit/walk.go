package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/merkle"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// verifyRows verifies all rows: several chunks at once while they are good, and then one by one.
func (v *verification) verifyRows(ctx context.Context) (*Bad, error) {
	if bad, err := v.verifyChunks(ctx); bad != nil || err != nil {
		return bad, err
	}
	return v.verifyStoredRows(ctx, v.head, true)
}

// verifyStoredRows verifies the rows of the database up to a number: their chain and, if whole is set, the tree and
// checkpoints.
func (v *verification) verifyStoredRows(ctx context.Context, last int64, whole bool) (*Bad, error) {
	from := int64(math.MinInt64)
	if v.chain.next > 1 {
		from = v.chain.next
	}
	for ; v.chain.next <= last || from == math.MinInt64; from = v.chain.next {
		page, err := v.l.readPage(ctx, Filter{}, from, pageRows, true)
		var notes map[int64][]byte
		if whole && len(page) > 0 { // also if the next row can't be read
			var failed error
			if notes, failed = v.l.readBlobs(ctx, selectNotes, from, page[len(page)-1].Seq); failed != nil { // not a fault of a row
				page, err = nil, failed
			}
		}
		for _, r := range page {
			if r.Seq > last && v.chain.next > last {
				return nil, nil
			}
			before := v.chain
			if bad := v.chain.verifyRow(r.Row); bad != nil {
				return bad, v.traceMoved(ctx, r.Row, before, bad)
			}
			if !whole {
				continue
			}
			if bad := checkReceipt(r); bad != nil {
				return v.dropLastGood(bad), nil
			}
			if bad, err := v.verifyNext(ctx, positionOf(r.Row), notes[r.Seq]); bad != nil || err != nil {
				return bad, err
			}
		}
		switch {
		case isContentError(err):
			return &Bad{v.chain.next, fmt.Sprintf("cannot be read: %v", err)}, nil
		case err != nil:
			return nil, err
		case len(page) == 0 && whole && v.chain.next <= last:
			return &Bad{v.chain.next, "is missing, with all after it"}, nil
		case len(page) == 0:
			return nil, nil
		}
	}
	return nil, nil
}

// checkReceipt returns the fault of a receipt that does not match its row.
func checkReceipt(r stored) *Bad {
	switch want, sum := receiptHash(r.Data), sha256.Sum256(r.receipt); {
	case want == nil && r.receipt != nil:
		return &Bad{r.Seq, "has a receipt of which it says nothing"}
	case want != nil && r.receipt == nil:
		return &Bad{r.Seq, "has lost its receipt"}
	case want != nil && !bytes.Equal(want, sum[:]):
		return &Bad{r.Seq, "has another receipt than the one it came with"}
	}
	return nil
}

// dropLastGood removes the last row, which is bad, from the good rows.
func (v *verification) dropLastGood(bad *Bad) *Bad {
	v.chain.next, v.chain.head = v.chain.next-1, v.chain.prev
	return bad
}

// rowPosition is the position of a good row.
type rowPosition struct {
	seq  int64
	hash [hashSize]byte
	time time.Time
}

// verifyNext adds the next row to the tree, and compares the tree with stored nodes and checkpoints. note is the log's
// checkpoint at that row.
func (v *verification) verifyNext(ctx context.Context, r rowPosition, note []byte) (bad *Bad, err error) {
	v.noteClock(r)
	err = v.tree.Append(merkle.Leaf(r.hash[:]), func(n merkle.Node) (err error) {
		if bad == nil {
			bad, err = v.compareNode(ctx, n)
		}
		return err
	})
	if err != nil || bad != nil {
		return bad, err
	}
	if note != nil {
		p, err := v.ring.Open(note)
		if err == nil && p.Size != r.seq {
			err = errors.New("it is for another row")
		}
		if err != nil {
			return v.dropLastGood(&Bad{r.seq, "the checkpoint there was changed: " + err.Error()}), nil
		}
		if bad := v.compareCheckpoint(namedCheckpoint{p, "the checkpoint there"}, r); bad != nil {
			return bad, nil
		}
	}
	if bad := v.compareExternal(r); bad != nil {
		return bad, nil
	}
	return v.compareAcknowledged(r), nil
}

// maxBack is the time by which a row may be older than the row before without a remark, since clocks are adjusted.
const maxBack = time.Second

// noteClock records a row that goes back in time.
func (v *verification) noteClock(r rowPosition) {
	if v.lastTime.Sub(r.time) > maxBack {
		if v.backwardRows++; v.backwardRows == 1 {
			v.firstBackward = fmt.Sprintf("row %d is of %s, and the one before it of %s", r.seq, r.time.Format(time.RFC3339),
				v.lastTime.Format(time.RFC3339))
		}
	}
	v.lastTime = r.time
}

const selectNotes = "SELECT size, note FROM checkpoints WHERE size BETWEEN ? AND ?"

// readBlobs returns the results of a query for numbers from first to last, by number.
func (l *logFile) readBlobs(ctx context.Context, query string, first, last int64) (map[int64][]byte, error) {
	m := map[int64][]byte{}
	var number int64
	var blob []byte
	for err := range statefile.Each(ctx, l.db, []any{&number, &blob}, query, first, last) {
		if err != nil {
			return nil, err
		}
		m[number] = blob
	}
	return m, nil
}

// namedCheckpoint is a checkpoint to compare the tree with.
type namedCheckpoint struct {
	checkpoint.Head
	name string
}
