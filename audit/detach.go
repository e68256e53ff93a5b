package audit

import (
	"context"
	"encoding/hex"
	"errors"
	"os"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// detach puts the file in its place, and takes the rows out of the database, under one lock. Killed
// before the commit, it leaves the file, which tidy removes; killed after it, it is done.
func (l *Log) detach(ctx context.Context, p pack) error {
	var w writer
	defer w.close()
	if err := w.begin(l); err != nil {
		return err
	}
	err := w.end(l.detachLocked(ctx, &w, p))
	if err == nil {
		err = l.disk.settle(l)
	}
	return err
}

func (l *Log) detachLocked(ctx context.Context, w *writer, p pack) error {
	sealed, err := sealedUpTo(ctx, w.conn)
	if err != nil {
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
	if err := statefile.SyncDir(l.segmentDir()); err != nil {
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

// record stores the proof of the segment for the time when its rows are gone.
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
	_, err := w.conn.ExecContext(ctx, "INSERT INTO segments (first, last, oldest, newest, hash, sha256) VALUES (?, ?, ?, ?, ?, ?)",
		p.segment.First, p.segment.Last, p.segment.Oldest.UnixNano(), p.segment.Newest.UnixNano(), head, sum)
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
