package audit

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

// sealedKind is the kind of the row that says what was sealed.
const sealedKind = "audit.sealed"

// sealing is the data of such a row.
type sealing struct {
	First  int64  `json:"first"`
	Last   int64  `json:"last"`
	SHA256 string `json:"file_sha256"`
	Hash   string `json:"last_hash"` // of row Last
}

func (s Segment) sealing() sealing { return sealing{s.First, s.Last, s.SHA256, s.head} }

// segmentRows bounds a segment, and with it how long others wait for the lock while its rows leave
// the database.
const segmentRows = 20_000

// Seal moves the rows before the first one that is as young as before out of the database, into
// segment files beside it, and returns these. A row "audit.sealed" says so for each. The newest row
// always stays. What is moved is checked first: nothing is sealed on top of what was tampered with.
//
// A process that is killed in it loses nothing: a row is in the database until it is in a file that is
// on the disk. The file of a segment that was not finished is replaced by the next Seal.
//
// The space that rows leave in the database is used for new ones, the file does not shrink.
func (l *Log) Seal(ctx context.Context, before time.Time) ([]Segment, error) {
	if l.signer == nil {
		return nil, fmt.Errorf("seal audit log %q: %w", l.path, errNoSigner)
	}
	done, err := l.seal(ctx, before)
	if err != nil {
		return done, fmt.Errorf("seal audit log %q: %w", l.path, explain(err, l.wait))
	}
	return done, nil
}

func (l *Log) seal(ctx context.Context, before time.Time) (done []Segment, err error) {
	if _, err := l.checkpointNow(ctx); err != nil { // finds what does not continue what was signed before
		return nil, err
	}
	const newest = "SELECT coalesce((SELECT seq FROM audit WHERE time >= ? ORDER BY seq LIMIT 1), (SELECT max(seq) FROM audit)) - 1"
	var first, last int64
	if err := l.db.QueryRowContext(ctx, newest, nanos(before)).Scan(&last); err != nil {
		return nil, err
	}
	for {
		if err := l.db.QueryRowContext(ctx, selectSealed).Scan(&first); err != nil || first >= last {
			return done, err
		}
		s, err := l.sealRows(ctx, first+1, min(last, first+segmentRows))
		if err != nil {
			return done, err
		}
		done = append(done, s)
	}
}

// sealRows makes one segment.
func (l *Log) sealRows(ctx context.Context, first, last int64) (s Segment, err error) {
	if err := os.MkdirAll(l.segmentDir(), 0o700); err != nil {
		return s, err
	}
	p, err := l.pack(ctx, first, last)
	if err != nil {
		return s, err
	}
	defer os.Remove(p.temporary)
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
}

// pack writes the rows to a temporary file, each checked, and the checkpoint at their end.
func (l *Log) pack(ctx context.Context, first, last int64) (p pack, err error) {
	before, err := nodes{ctx, l.db}.tree(first - 1)
	if err != nil {
		return p, err
	}
	w, err := newSegmentWriter(l.segmentDir())
	if err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			w.abandon()
		}
	}()
	p.tree = tree{before.size, append([]tlog.Hash{}, before.edge...)}
	if p.segment.head, err = l.copyRows(ctx, w, &p.tree, first, last); err != nil {
		return p, err
	}
	// The rows must be those that were signed, before they are signed again as a segment.
	signed, err := nodes{ctx, l.db}.tree(last)
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
	if p.note, err = (checkpoint{origin, last, p.tree.root()}).sign(key); err != nil {
		return p, err
	}
	p.segment.First, p.segment.Last, p.segment.File = first, last, l.segmentPath(first, last)
	p.temporary = w.file.Name()
	p.segment.SHA256, err = w.finish(endLine{string(p.note), before.before()})
	return p, err
}

// copyRows writes rows and their receipts, adds them to the tree, and returns the last one's hash.
func (l *Log) copyRows(ctx context.Context, w *segmentWriter, t *tree, first, last int64) (head string, err error) {
	var c *chain
	for from := first; from <= last; {
		page, err := l.page(ctx, Filter{}, from, int(min(last-from+1, pageRows)))
		if err != nil {
			return "", err
		}
		receipts, err := l.receipts(ctx, from, from+int64(len(page))-1)
		if err != nil {
			return "", err
		}
		for _, r := range page {
			if c == nil {
				c = &chain{next: first, head: r.Prev, prev: r.Prev}
			}
			if bad := c.add(r); bad != nil {
				return "", fmt.Errorf("row %d %s: see sandboxmcp audit verify", bad.Seq, bad.Why)
			}
			if err := w.row(r, receipts[r.Seq]); err != nil {
				return "", err
			}
			hash, _ := hex.DecodeString(r.Hash)
			t.add(leaf(hash), nil)
		}
		if len(page) == 0 {
			return "", fmt.Errorf("row %d is missing: see sandboxmcp audit verify", from)
		}
		from = c.next
	}
	return c.head, nil
}

func (l *Log) receipts(ctx context.Context, first, last int64) (map[int64][]byte, error) {
	rows, err := l.db.QueryContext(ctx, "SELECT seq, envelope FROM receipts WHERE seq BETWEEN ? AND ?", first, last)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	m := map[int64][]byte{}
	for rows.Next() {
		var seq int64
		var envelope []byte
		if err := rows.Scan(&seq, &envelope); err != nil {
			return nil, err
		}
		m[seq] = envelope
	}
	return m, rows.Err()
}

// detach puts the file in its place, and takes the rows out of the database, under one lock. Killed
// before the commit, it leaves the file, which tidy removes; killed after it, it is done.
func (l *Log) detach(ctx context.Context, p pack) error {
	var w writer
	defer w.close()
	if err := w.begin(l); err != nil {
		return err
	}
	return w.end(l.detachLocked(ctx, &w, p))
}

func (l *Log) detachLocked(ctx context.Context, w *writer, p pack) error {
	var sealed int64
	if err := w.conn.QueryRowContext(ctx, selectSealed).Scan(&sealed); err != nil {
		return err
	}
	if sealed != p.segment.First-1 {
		return errors.New("another process is sealing it")
	}
	if err := l.tidy(ctx, w.conn); err != nil {
		return err
	}
	if err := os.Rename(p.temporary, p.segment.File); err != nil {
		return err
	}
	if err := syncFolder(l.segmentDir()); err != nil {
		return err
	}
	if err := w.record(ctx, p); err != nil {
		return err
	}
	r, err := newRequest([]Entry{{Kind: sealedKind, Data: p.segment.sealing()}})
	if err != nil {
		return err
	}
	if err := w.insert([]*request{r}, l.now); err != nil { // first, so that the table is never empty
		return err
	}
	return w.remove(ctx, p.segment)
}

// record stores what proves the segment when its rows are gone.
func (w *writer) record(ctx context.Context, p pack) error {
	var seam []node
	for i, n := range edgeNodes(p.segment.Last) {
		n.hash = p.tree.edge[i]
		seam = append(seam, n)
	}
	if err := putNodes(ctx, w.conn, seam); err != nil {
		return err
	}
	if err := putCheckpoint(ctx, w.conn, p.segment.Last, p.note); err != nil {
		return err
	}
	head, _ := hex.DecodeString(p.segment.head)
	sum, _ := hex.DecodeString(p.segment.SHA256)
	_, err := w.conn.ExecContext(ctx, "INSERT INTO segments (first, last, hash, sha256) VALUES (?, ?, ?, ?)", p.segment.First, p.segment.Last, head, sum)
	return err
}

// remove takes rows out of the database. The triggers that forbid it are gone for nobody else: it all
// is one transaction.
func (w *writer) remove(ctx context.Context, s Segment) error {
	made, err := pristine(ctx)
	if err != nil {
		return err
	}
	for _, table := range []string{"audit", "receipts"} {
		trigger := table + "_no_delete"
		if _, err := w.conn.ExecContext(ctx, "DROP TRIGGER "+trigger); err != nil {
			return err
		}
		if _, err := w.conn.ExecContext(ctx, "DELETE FROM "+table+" WHERE seq BETWEEN ? AND ?", s.First, s.Last); err != nil {
			return err
		}
		if _, err := w.conn.ExecContext(ctx, made["trigger "+trigger]); err != nil {
			return err
		}
	}
	return nil
}
