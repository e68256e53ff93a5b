package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"runtime"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/pack"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// chunkRows is the number of rows that are verified on a connection at once.
const chunkRows = 500

// chunk is a part of the log, whose rows are verified beside others: each against the row before it.
type chunk struct {
	first, last int64
	before      []byte // hash that the first row follows on
	places      []rowPosition
	notes       map[int64][]byte
	good        bool // false: verify the rows one by one to find the fault
	done        chan struct{}
}

// verifyChunks verifies the rows in chunks, up to the first bad one. It checks the chunks in order: the chain between
// them, the tree, and checkpoints.
func (v *verification) verifyChunks(ctx context.Context) (*Bad, error) {
	if odd, err := statefile.One[bool](ctx, v.l.db, "SELECT EXISTS (SELECT 1 FROM audit WHERE seq < ?)", v.chain.next); err != nil || odd {
		return nil, nil
	}
	p, err := v.l.codec(ctx)
	if err != nil {
		return nil, nil
	}
	ctx, stop := context.WithCancel(ctx)
	workers := max(2, runtime.GOMAXPROCS(0))
	todo, order := make(chan *chunk), make(chan *chunk, 2*workers)
	ended := make(chan struct{}, workers)
	defer func() {
		stop()
		for range workers {
			<-ended
		}
	}()
	go v.cutChunks(ctx, v.chain, todo, order)
	for range workers {
		go func() {
			w := chunkReader{log: v.l, Codec: p}
			for c := range todo {
				w.verifyChunk(ctx, c)
				close(c.done)
			}
			ended <- struct{}{}
		}()
	}
	for c := range order {
		<-c.done
		if !c.good || hex.EncodeToString(c.before) != v.chain.head {
			return nil, ctx.Err()
		}
		for _, r := range c.places {
			v.chain.next, v.chain.prev = r.seq+1, v.chain.head
			v.chain.head = hex.EncodeToString(r.hash[:])
			if bad, err := v.verifyNext(ctx, r, c.notes[r.seq]); bad != nil || err != nil {
				return bad, err
			}
		}
	}
	return nil, ctx.Err()
}

// cutChunks sends the chunks in order.
func (v *verification) cutChunks(ctx context.Context, from chain, todo, order chan<- *chunk) {
	defer close(todo)
	defer close(order)
	before, _ := hex.DecodeString(from.head)
	for first := from.next; first <= v.head; first += chunkRows {
		c := &chunk{first: first, last: min(first+chunkRows-1, v.head), before: before, done: make(chan struct{})}
		before = nil // verifyChunk reads it
		select {
		case order <- c:
		case <-ctx.Done():
			return
		}
		select {
		case todo <- c:
		case <-ctx.Done():
			close(c.done)
			return
		}
	}
}

// chunkReader reads chunks, one after the other, into the same memory.
type chunkReader struct {
	log *logFile
	*pack.Codec
	content, row, receipt []byte
}

const selectChunk = "SELECT seq, time, kind, run, namespace, prev, hash, receipt, data FROM audit WHERE seq BETWEEN ? AND ? ORDER BY seq"

// verifyChunk verifies the rows of c.
func (w *chunkReader) verifyChunk(ctx context.Context, c *chunk) {
	var err error
	if c.before == nil {
		if c.before, err = statefile.One[[]byte](ctx, w.log.db, "SELECT hash FROM audit WHERE seq = ?", c.first-1); err != nil {
			return
		}
	}
	if c.notes, err = w.log.readBlobs(ctx, selectNotes, c.first, c.last); err != nil {
		return
	}
	c.places = make([]rowPosition, 0, c.last-c.first+1)
	head := c.before
	var seq, nanos int64
	var kind, run, namespace, prev, hash, signature, packed sql.RawBytes
	for err := range statefile.Each(ctx, w.log.db, []any{&seq, &nanos, &kind, &run, &namespace, &prev, &hash, &signature, &packed},
		selectChunk, c.first, c.last) {
		if err != nil || seq != c.first+int64(len(c.places)) || !bytes.Equal(fullPrev(prev, head), head) {
			return
		}
		if w.content, err = w.Unpack(packed, w.content[:0]); err != nil {
			return
		}
		data := pack.Content(w.content).Data()
		w.row = appendRow(w.row[:0], head, seq, nanos, kind, run, namespace, data)
		if sum := sha256.Sum256(w.row); !bytes.Equal(sum[:], hash) || !w.isGoodReceipt(data, signature) {
			return
		}
		c.places = append(c.places, rowPosition{seq, [hashSize]byte(hash), time.Unix(0, nanos).UTC()})
		head = c.places[len(c.places)-1].hash[:]
	}
	c.good = len(c.places) == cap(c.places)
}

// isGoodReceipt reports whether the receipt of the last unpacked row matches the hash in its data.
func (w *chunkReader) isGoodReceipt(data, signature []byte) bool {
	want, c := receiptHash(data), pack.Content(w.content)
	if has := signature != nil; has != (want != nil) || has != c.HasReceipt() {
		return false
	} else if !has {
		return true
	}
	var err error
	w.receipt, err = c.AppendReceipt(w.receipt[:0], signature)
	sum := sha256.Sum256(w.receipt)
	return err == nil && bytes.Equal(sum[:], want)
}
