package audit

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// outsideRows checks the tables beside the rows.
func (v *verification) outsideRows(ctx context.Context) (*Bad, error) {
	if n := len(v.segments); n > 0 && v.head <= v.segments[n-1].Last {
		return &Bad{v.segments[n-1].Last + 1, "is missing, the one that says what was sealed"}, nil
	}
	for _, p := range v.external {
		if p.size > v.head {
			return v.cutOff(p), nil
		}
	}
	if v.newest > v.head {
		return v.cutOff(point{checkpoint{size: v.newest}, "a checkpoint in the log"}), nil
	}
	if v.doubtful != nil && v.doubtful.Seq > v.proven.size {
		return v.doubtful, nil
	} else if v.doubtful != nil {
		v.remarks = append(v.remarks, fmt.Sprintf("checkpoints that do not count, as their key was replaced or revoked by then: %d; newer ones cover these rows", v.doubts))
	}
	if bad, err := v.neverSigned(ctx); bad != nil || err != nil {
		return bad, err
	}
	if bad, err := v.orphanNodes(ctx); bad != nil || err != nil {
		return bad, err
	}
	if bad := v.unrecordedSegment(); bad != nil {
		return bad, nil
	}
	if err := v.late(ctx); err != nil {
		return nil, err
	}
	return v.orphanRows(ctx)
}

// neverSigned finds a log without a checkpoint whose rows were signed: the first rows are, as soon as they are written, so
// checkpoints that are not there were taken away. That they were made follows from the caller's keys, from rows about keys
// and segments, and from receipts.
func (v *verification) neverSigned(ctx context.Context) (*Bad, error) {
	if v.head == 0 || v.newest > 0 || v.proven.size > 0 {
		return nil, nil
	}
	why := "keys are known that sign it"
	if len(v.keys) == 0 {
		err := v.l.db.QueryRowContext(ctx, `SELECT 'row ' || seq || ' says ' || kind FROM audit WHERE kind IN ('key.created', 'key.rotated', 'key.revoked', ?1)
			UNION ALL SELECT 'row ' || seq || ' has a receipt' FROM receipts LIMIT 1`, sealedKind).Scan(&why)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	return &Bad{0, fmt.Sprintf("no checkpoint is there, and %s: the checkpoints were removed, or the first one could not be made, or its process was killed (sandboxmcp audit checkpoint signs the rows as they are now)", why)}, nil
}

// maxLate is the longest time between two rows that one checkpoint signs where nobody was killed: 5 s, and a slow disk.
const maxLate = time.Minute

// late reports rows that waited long for a checkpoint. Somebody who removes checkpoints and waits for the next one
// leaves that trace, and so does a killed process.
func (v *verification) late(ctx context.Context) error {
	var n, first, last int64
	err := v.l.db.QueryRowContext(ctx, `SELECT count(*), coalesce(min(a.seq), 0), coalesce(min(b.seq), 0) FROM checkpoints c
		JOIN audit b ON b.seq = c.size
		JOIN audit a ON a.seq = 1 + coalesce((SELECT max(size) FROM checkpoints WHERE size < c.size), 0)
		WHERE b.time - a.time > ?`, int64(maxLate)).Scan(&n, &first, &last)
	if err == nil && n > 0 {
		v.remarks = append(v.remarks, fmt.Sprintf("rows %d to %d were signed late, together, and so %d times in all: a process was killed, or checkpoints in between were removed", first, last, n))
	}
	return err
}

// orphanRows finds receipts and checkpoints of rows that do not exist.
func (v *verification) orphanRows(ctx context.Context) (*Bad, error) {
	orphan, err := one[int64](ctx, v.l.db, "SELECT seq FROM receipts WHERE seq NOT IN (SELECT seq FROM audit) LIMIT 1")
	if err == nil && orphan <= v.head {
		return &Bad{orphan, "has a receipt of which it says nothing"}, nil
	} else if err == nil {
		return &Bad{v.head + 1, fmt.Sprintf("is missing: there is a receipt of row %d", orphan)}, nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		orphan, err = one[int64](ctx, v.l.db, "SELECT size FROM checkpoints WHERE size < 1 LIMIT 1")
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return &Bad{0, fmt.Sprintf("there is a checkpoint for %d rows", orphan)}, nil
}

func (v *verification) cutOff(p point) *Bad {
	return &Bad{v.chain.next, fmt.Sprintf("is missing, with all after it up to row %d: %s covers them, so they were cut off, or an older copy of the log was put in its place", p.size, p.name)}
}

// orphanNodes finds stored hashes of an unsigned tree: the next signature would fail on them.
func (v *verification) orphanNodes(ctx context.Context) (*Bad, error) {
	var stored, beyond int64
	err := v.l.db.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE (position + 1) << level <= ?),
		count(*) FILTER (WHERE (position + 1) << level > (SELECT coalesce(max(size), 0) FROM checkpoints))
		FROM tree WHERE level >= ?`, v.newest, storedLevel).Scan(&stored, &beyond)
	if err != nil {
		return nil, err
	}
	if want := storedNodes(v.newest); stored != want || beyond > 0 {
		return &Bad{0, fmt.Sprintf("the stored tree has %d hashes instead of %d", stored+beyond, want)}, nil
	}
	seams := map[node]bool{}
	for _, s := range v.segments {
		for _, n := range edgeNodes(s.Last) {
			seams[n] = true
		}
	}
	var n node
	for err := range each(ctx, v.l.db, []any{&n.level, &n.position}, "SELECT level, position FROM tree WHERE level < ?", storedLevel) {
		if err != nil {
			return nil, err
		}
		if !seams[n] {
			return &Bad{0, fmt.Sprintf("the stored tree has a hash at level %d, position %d, where none belongs", n.level, n.position)}, nil
		}
	}
	return nil, nil
}

// unrecordedSegment finds a segment without a row that says that it was sealed. Where a segment is missing, that row
// may be in it.
func (v *verification) unrecordedSegment() *Bad {
	recorded := map[sealing]bool{}
	for _, data := range v.sealings {
		var s sealing
		if json.Unmarshal(data, &s) == nil {
			recorded[s] = true
		}
	}
	for i, s := range v.segments {
		hidden := slices.ContainsFunc(v.segments[i+1:], func(later Segment) bool { return !later.Here })
		if !recorded[s.sealing()] && !hidden {
			return &Bad{s.First, fmt.Sprintf("was taken out of the log, with all up to row %d, and no row says that they were sealed", s.Last)}
		}
	}
	return nil
}
