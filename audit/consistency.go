package audit

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// Checkpointed is the content of a checkpoint.
type Checkpointed struct {
	Origin string
	Size   int64 // rows
}

// Continues checks that the log continues a checkpoint that was stored elsewhere: one of keys has signed it (with
// none, anybody may have), it is of this log, and it matches the log's first rows.
func (l *Log) Continues(ctx context.Context, note []byte, keys []Key) (Checkpointed, error) {
	origin, err := readOrigin(ctx, l.db)
	if err != nil {
		return Checkpointed{}, l.readError(err)
	}
	c, err := newKeyring(origin, keys).open(note)
	result := Checkpointed{c.origin, c.size}
	if err != nil {
		return result, err
	}
	head, err := lastSeq(ctx, l.db)
	if err != nil {
		return result, l.readError(err)
	}
	if c.size > head {
		return result, fmt.Errorf("it covers %d rows, and the log has %d: %w", c.size, head, ErrOlder)
	}
	n, err := l.nodesAt(ctx, c.size)
	if err != nil {
		return result, l.readError(err)
	}
	t, err := n.tree(c.size)
	if err != nil {
		return result, l.readError(err)
	}
	if t.root() != c.root {
		return result, fmt.Errorf("the rows up to %d are not what it says: they were rewritten", c.size)
	}
	return result, nil
}

// ErrOlder is the error for a log that has fewer rows than a checkpoint of it.
var ErrOlder = fmt.Errorf("rows were cut off, or an older copy was put in the log's place")

// Consistency returns an RFC 6962 consistency proof from size old to size. It is nil for an old that is 0 or size.
func (l *Log) Consistency(ctx context.Context, old, size int64) ([]tlog.Hash, error) {
	if old == 0 || old == size {
		return nil, nil
	}
	n, err := l.nodesAt(ctx, old)
	if err != nil {
		return nil, l.readError(err)
	}
	p, err := tlog.ProveTree(size, old, n)
	if err != nil {
		return nil, l.readError(err)
	}
	return p, nil
}

// nodesAt reads the tree around a row, also if that is in a segment.
func (l *Log) nodesAt(ctx context.Context, seq int64) (nodes, error) {
	n := nodes{ctx: ctx, q: l.db}
	segments, err := l.segments(ctx, l.db, seq)
	if err == nil && len(segments) > 0 && segments[0].First <= seq && segments[0].Last != seq && segments[0].Here {
		n.sealed, err = segments[0].hashes()
	}
	return n, err
}

// OpenCheckpoint parses a checkpoint of any log, without checking its signature.
func OpenCheckpoint(note []byte) (Checkpointed, error) {
	c, err := openNote(note, nil)
	return Checkpointed{c.origin, c.size}, err
}
