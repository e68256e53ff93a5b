package audit

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Continues checks that the log continues a checkpoint that was stored elsewhere, and returns the number of rows that the
// checkpoint covers: one of keys has signed it (with none, anybody may have), it is of this log, and it matches the log's
// first rows.
func (l *Log) Continues(ctx context.Context, note []byte, keys []Key) (size int64, err error) {
	origin, err := readOrigin(ctx, l.db)
	if err != nil {
		return 0, l.readError(err)
	}
	c, err := newKeyring(origin, keys).open(note)
	if err != nil {
		return c.size, err
	}
	head, err := lastSeq(ctx, l.db)
	if err == nil && c.size > head {
		return c.size, fmt.Errorf("it covers %d rows, and the log has %d: %w", c.size, head, ErrOlder)
	}
	var n nodes
	if err == nil {
		n, err = l.nodesAt(ctx, c.size)
	}
	var t tree
	if err == nil {
		t, err = n.tree(c.size)
	}
	if err == nil && t.root() != c.root {
		return c.size, fmt.Errorf("the rows up to %d are not what it says: they were rewritten", c.size)
	}
	return c.size, l.readError(err)
}

// ErrOlder is the error for a log that has fewer rows than a checkpoint of it.
var ErrOlder = fmt.Errorf("rows were cut off, or an older copy was put in the log's place")

// Consistency returns an RFC 6962 consistency proof from size old to size. It is nil for an old that is 0 or size.
func (l *Log) Consistency(ctx context.Context, old, size int64) ([]tlog.Hash, error) {
	if old == 0 || old == size {
		return nil, nil
	}
	n, err := l.nodesAt(ctx, old)
	var p tlog.TreeProof
	if err == nil {
		p, err = tlog.ProveTree(size, old, n)
	}
	return p, l.readError(err)
}

// nodesAt returns the nodes around a row, also in a segment.
func (l *Log) nodesAt(ctx context.Context, seq int64) (nodes, error) {
	n := nodes{ctx: ctx, q: l.db}
	segments, err := l.segments(ctx, l.db, seq)
	if err == nil && len(segments) > 0 && segments[0].First <= seq && segments[0].Last != seq && segments[0].Here {
		n.sealed, err = segments[0].hashes()
	}
	return n, err
}

// CheckpointSize returns the number of rows that a checkpoint of any log covers, without checking its signature.
func CheckpointSize(note []byte) (int64, error) {
	c, err := openNote(note, nil)
	return c.size, err
}
