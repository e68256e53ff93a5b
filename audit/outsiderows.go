package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/checkpoint"
	"github.com/sandboxmcp/sandboxmcp/audit/merkle"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// verifyTables checks the tables beside the rows.
func (v *verification) verifyTables(ctx context.Context) (*Bad, error) {
	for _, p := range v.external {
		if v.last && p.Size > v.head && v.log.named == nil {
			return v.cutOffAt(p), nil
		}
	}
	if v.newest > v.head {
		return v.cutOffAt(namedCheckpoint{checkpoint.Head{Size: v.newest}, "a checkpoint in the log"}), nil
	}
	if bad := v.findCut(); bad != nil {
		return bad, nil
	}
	if v.doubtful != nil && v.doubtful.Seq > v.proven.size {
		return v.doubtful, nil
	} else if v.doubtful != nil {
		v.remarks = append(v.remarks, fmt.Sprintf("checkpoints that do not count, as their key was replaced or revoked by then: %d; newer "+
			"ones cover these rows", v.doubts))
	}
	if bad, err := v.findNeverSigned(ctx); bad != nil || err != nil {
		return bad, err
	}
	if bad, err := v.findOrphanNodes(ctx); bad != nil || err != nil {
		return bad, err
	}
	if err := v.remarkLate(ctx); err != nil {
		return nil, err
	}
	return v.findOrphanCheckpoints(ctx)
}

// findNeverSigned finds a log whose checkpoints were removed: the first rows are signed as soon as they are written.
// The caller's keys, rows about keys, and receipts are evidence that the log was signed.
func (v *verification) findNeverSigned(ctx context.Context) (*Bad, error) {
	if v.head == 0 || v.newest > 0 || v.proven.size > 0 {
		return nil, nil
	}
	why := "keys are known that sign it"
	if len(v.keys) == 0 {
		err := v.l.db.QueryRowContext(ctx, `SELECT 'row ' || seq || ' says ' || kind FROM audit WHERE kind IN ('key.created', 'key.rotated', 'key.revoked')
			UNION ALL SELECT 'row ' || seq || ' has a receipt' FROM audit WHERE receipt IS NOT NULL LIMIT 1`).Scan(&why)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	return &Bad{0, fmt.Sprintf("no checkpoint is there, and %s: the checkpoints were removed, or the first one could not be made, or its "+
		"process was killed (sandboxmcp audit checkpoint signs the rows as they are now)", why)}, nil
}

// maxLate is the longest time between two rows of one checkpoint if no process was killed: 5 s, and a margin for a slow
// disk.
const maxLate = time.Minute

// remarkLate adds a remark about rows that waited long for a checkpoint: the trace of removed checkpoints, and of a
// killed process.
func (v *verification) remarkLate(ctx context.Context) error {
	var n, first, last int64
	err := v.l.db.QueryRowContext(ctx, `SELECT count(*), coalesce(min(a.seq), 0), coalesce(min(b.seq), 0) FROM checkpoints c
		JOIN audit b ON b.seq = c.size
		JOIN audit a ON a.seq = 1 + coalesce((SELECT max(size) FROM checkpoints WHERE size < c.size), 0)
		WHERE b.time - a.time > ?`, int64(maxLate)).Scan(&n, &first, &last)
	if err == nil && n > 0 {
		v.remarks = append(v.remarks, fmt.Sprintf("rows %d to %d were signed late, together, and so %d times in all: a process was killed, or "+
			"checkpoints in between were removed", first, last, n))
	}
	return err
}

// findOrphanCheckpoints finds checkpoints of rows that do not exist.
func (v *verification) findOrphanCheckpoints(ctx context.Context) (*Bad, error) {
	orphan, err := statefile.One[int64](ctx, v.l.db, "SELECT size FROM checkpoints WHERE size < 1 LIMIT 1")
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return &Bad{0, fmt.Sprintf("there is a checkpoint for %d rows", orphan)}, nil
}

func (v *verification) cutOffAt(p namedCheckpoint) *Bad {
	return &Bad{v.chain.next, fmt.Sprintf("is missing, with all after it up to row %d: %s covers them, so they were cut off, or an older "+
		"copy of the log was put in its place", p.Size, p.name)}
}

// findOrphanNodes finds stored hashes of an unsigned tree: the next signature would fail on them.
func (v *verification) findOrphanNodes(ctx context.Context) (*Bad, error) {
	var stored, beyond int64
	before := v.l.first - 1 // rows in other files: only the edge of their tree is stored here
	err := v.l.db.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE (position + 1) << level <= ?),
		count(*) FILTER (WHERE (position + 1) << level > (SELECT coalesce(max(size), 0) FROM checkpoints))
		FROM tree WHERE level >= ? OR (position + 1) << level <= ?`, v.newest, merkle.StoredLevel, before).Scan(&stored, &beyond)
	if err != nil {
		return nil, err
	}
	if want := merkle.StoredNodes(v.newest) - merkle.StoredNodes(before) + int64(len(merkle.EdgeNodes(before))); stored != want || beyond > 0 {
		return &Bad{0, fmt.Sprintf("the stored tree has %d hashes instead of %d", stored+beyond, want)}, nil
	}
	var n merkle.Node
	for err := range statefile.Each(ctx, v.l.db, []any{&n.Level, &n.Position},
		"SELECT level, position FROM tree WHERE level < ? AND (position + 1) << level > ?", merkle.StoredLevel, before) {
		if err != nil {
			return nil, err
		}
		return &Bad{0, fmt.Sprintf("the stored tree has a hash at level %d, position %d, where none belongs", n.Level, n.Position)}, nil
	}
	return nil, nil
}
