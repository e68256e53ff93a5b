package audit

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// sealedKind is the kind of the row that describes a sealed segment.
const sealedKind = "audit.sealed"

// sealing is the data of a row of sealedKind. It has all facts of the list of segments, so that a change of that list
// shows.
type sealing struct {
	First  int64     `json:"first"`
	Last   int64     `json:"last"`
	Oldest time.Time `json:"oldest"`
	Newest time.Time `json:"newest"`
	SHA256 string    `json:"file_sha256"`
	Hash   string    `json:"last_hash"` // of row Last
}

// maxSealing is more than the bytes of any sealing.
const maxSealing = 1 << 10

func (s Segment) sealing() sealing {
	return sealing{s.First, s.Last, s.Oldest, s.Newest, s.SHA256, s.head}
}

// segmentRows bounds a segment, and with it how long others wait for the lock while its rows leave the database.
const segmentRows = 20_000

// Seal moves the rows before the first one that is as young as before out of the database, into segment files beside
// it, and returns these. A row "audit.sealed" says so for each. The newest row always stays. What is moved is checked
// first, and its file is read back: nothing is sealed on top of what was tampered with, rows or receipts.
//
// A process that is killed in it loses nothing: a row is in the database until it is in a file that is
// on the disk. The file of a segment that was not finished is replaced by the next Seal.
//
// The space that rows leave in the database is used for new ones, the file does not shrink.
func (l *Log) Seal(ctx context.Context, before time.Time) ([]Segment, error) {
	if l.signer == nil {
		return nil, l.failed("seal", errNoSigner)
	}
	done, err := l.seal(ctx, before)
	return done, l.failed("seal", err)
}

func (l *Log) seal(ctx context.Context, before time.Time) (done []Segment, err error) {
	if _, err := l.checkpointNow(ctx); err != nil { // finds what does not continue what was signed before
		return nil, err
	}
	const newest = "SELECT coalesce((SELECT seq FROM audit WHERE time >= ? ORDER BY seq LIMIT 1), (SELECT max(seq) FROM audit)) - 1"
	last, err := one[int64](ctx, l.db, newest, nanos(before))
	if err != nil {
		return nil, err
	}
	for {
		first, err := sealedUpTo(ctx, l.db)
		if err != nil || first >= last {
			return done, err
		}
		s, err := l.sealRows(ctx, first+1, min(last, first+segmentRows))
		if err != nil {
			return done, err
		}
		done = append(done, s)
	}
}

// sealRows makes a segment.
func (l *Log) sealRows(ctx context.Context, first, last int64) (s Segment, err error) {
	if err := os.MkdirAll(l.segmentDir(), 0o700); err != nil {
		return s, err
	}
	p, err := l.pack(ctx, first, last)
	if err != nil {
		return s, err
	}
	defer os.Remove(p.temporary)
	if err := p.confirm(); err != nil {
		return s, err
	}
	if err := l.detach(ctx, p); err != nil {
		return s, err
	}
	_, err = l.checkpointNow(ctx) // over the row that says what was sealed
	p.segment.Here = true
	return p.segment, err
}

// pack is a segment that is written and not yet in its place.
type pack struct {
	segment   Segment
	temporary string
	tree      tree // at its end
	note      []byte
	key       ed25519.PublicKey // that signed it
}

// confirm reads back the file that will be the only copy of its rows, and refuses it unless the file alone proves the
// rows that were signed.
func (p pack) confirm() error {
	r, err := VerifySegment(p.temporary, []Key{{PublicKey: p.key}})
	if err != nil {
		return err
	}
	want := p.segment
	switch bad := r.Bad; {
	case bad != nil && bad.Seq > 0:
		return fmt.Errorf("%v: see sandboxmcp audit verify", bad)
	case bad != nil:
		return fmt.Errorf("what was written as rows %d to %d reads otherwise: %s", want.First, want.Last, bad.Why)
	}
	want.File, want.Here = p.temporary, true
	if got := r.Segments[0]; got != want || r.Root != p.tree.root().String() {
		return fmt.Errorf("what was written as rows %d to %d reads as others, %d to %d", want.First, want.Last, got.First, got.Last)
	}
	return nil
}

// pack writes the rows to a temporary file, each checked, and the checkpoint at their end.
func (l *Log) pack(ctx context.Context, first, last int64) (p pack, err error) {
	before, err := nodes{ctx: ctx, q: l.db}.tree(first - 1)
	if err != nil {
		return p, err
	}
	w, err := newSegmentWriter(l.segmentDir())
	if err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			w.file.Close()
			os.Remove(w.file.Name())
		}
	}()
	p.tree = tree{before.size, append([]tlog.Hash{}, before.edge...)}
	if err := l.copyRows(ctx, w, &p, first, last); err != nil {
		return p, err
	}
	// The rows must be those that were signed, before they are signed again as a segment.
	signed, err := nodes{ctx: ctx, q: l.db}.tree(last)
	if err == nil && signed.root() != p.tree.root() {
		err = fmt.Errorf("the rows up to %d are not what was signed: see sandboxmcp audit verify", last)
	}
	if err != nil {
		return p, err
	}
	origin, err := readOrigin(ctx, l.db)
	if err != nil {
		return p, err
	}
	key, err := l.signer.key(ctx)
	if err != nil {
		return p, err
	}
	p.key = key.Public().(ed25519.PublicKey)
	if p.note, err = (checkpoint{origin: origin, size: last, root: p.tree.root()}).sign(key); err != nil {
		return p, err
	}
	p.segment.First, p.segment.Last, p.segment.File = first, last, l.segmentPath(first, last)
	p.temporary = w.file.Name()
	p.segment.SHA256, err = w.finish(endLine{string(p.note), before.before()})
	return p, err
}

// copyRows writes rows and their receipts, and adds the rows to the tree and the segment of p.
func (l *Log) copyRows(ctx context.Context, w *segmentWriter, p *pack, first, last int64) error {
	var c *chain
	for from := first; from <= last; {
		page, err := l.page(ctx, Filter{}, from, int(min(last-from+1, pageRows)))
		if err != nil {
			return err
		}
		receipts, err := l.blobs(ctx, selectReceipts, from, from+int64(len(page))-1)
		if err != nil {
			return err
		}
		for _, r := range page {
			if c == nil {
				c = &chain{next: first, head: r.Prev, prev: r.Prev}
			}
			if bad := c.add(r); bad != nil {
				return fmt.Errorf("%v: see sandboxmcp audit verify", bad)
			}
			if err := w.row(r, receipts[r.Seq]); err != nil {
				return err
			}
			hash, _ := hex.DecodeString(r.Hash)
			p.tree.add(leaf(hash), nil)
			p.segment.cover(r)
		}
		if len(page) == 0 {
			return fmt.Errorf("row %d is missing: see sandboxmcp audit verify", from)
		}
		from = c.next
	}
	p.segment.head = c.head
	return nil
}
