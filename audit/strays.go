package audit

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// rest checks what lies outside the rows.
func (v *verification) rest(ctx context.Context) (*Bad, error) {
	if n := len(v.segments); n > 0 && v.head <= v.segments[n-1].Last {
		return &Bad{v.segments[n-1].Last + 1, "is missing, the one that says what was sealed"}, nil
	}
	for _, p := range v.kept {
		if p.size > v.head {
			return v.cutOff(p), nil
		}
	}
	if v.newest > v.head {
		return v.cutOff(point{checkpoint{size: v.newest}, "a checkpoint in the log"}), nil
	}
	if bad, err := v.strayNodes(ctx); bad != nil || err != nil {
		return bad, err
	}
	if bad := v.unsaid(); bad != nil {
		return bad, nil
	}
	return v.strayRows(ctx)
}

// strayRows finds receipts and checkpoints for rows that no log has.
func (v *verification) strayRows(ctx context.Context) (*Bad, error) {
	var stray int64
	err := v.l.db.QueryRowContext(ctx, "SELECT seq FROM receipts WHERE seq > ? AND seq NOT IN (SELECT seq FROM audit) LIMIT 1", v.head).Scan(&stray)
	if err == nil {
		return &Bad{v.head + 1, fmt.Sprintf("is missing: there is a receipt of row %d", stray)}, nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		err = v.l.db.QueryRowContext(ctx, "SELECT size FROM checkpoints WHERE size < 1 LIMIT 1").Scan(&stray)
	}
	switch {
	case err == nil:
		return &Bad{0, fmt.Sprintf("there is a checkpoint for %d rows", stray)}, nil
	case !errors.Is(err, sql.ErrNoRows):
		return nil, err
	}
	return nil, nil
}

func (v *verification) cutOff(p point) *Bad {
	return &Bad{v.chain.next, fmt.Sprintf("is missing, with all after it up to row %d: %s covers them, so they were cut off, or an older copy of the log was put in its place", p.size, p.name)}
}

// strayNodes finds hashes that are stored for a tree that nobody has signed: the next signature
// would stumble over them.
func (v *verification) strayNodes(ctx context.Context) (*Bad, error) {
	var stored, beyond int64
	err := v.l.db.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE (position + 1) << level <= ?),
		count(*) FILTER (WHERE (position + 1) << level > (SELECT coalesce(max(size), 0) FROM checkpoints))
		FROM tree WHERE level >= ?`, v.newest, storedLevel).Scan(&stored, &beyond)
	if err != nil {
		return nil, err
	}
	if wanted := storedNodes(v.newest); stored != wanted || beyond > 0 {
		return &Bad{0, fmt.Sprintf("the stored tree has %d hashes instead of %d", stored+beyond, wanted)}, nil
	}
	seams := map[node]bool{}
	for _, s := range v.segments {
		for _, n := range edgeNodes(s.Last) {
			seams[n] = true
		}
	}
	rows, err := v.l.db.QueryContext(ctx, "SELECT level, position FROM tree WHERE level < ?", storedLevel)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n node
		if err := rows.Scan(&n.level, &n.position); err != nil {
			return nil, err
		}
		if !seams[n] {
			return &Bad{0, fmt.Sprintf("the stored tree has a hash at level %d, position %d, where none belongs", n.level, n.position)}, nil
		}
	}
	return nil, rows.Err()
}

// unsaid finds a segment of which no row says that it was sealed. Where a segment is missing, that row may be in it.
func (v *verification) unsaid() *Bad {
	said := map[sealing]bool{}
	for _, data := range v.sealings {
		var s sealing
		if json.Unmarshal(data, &s) == nil {
			said[s] = true
		}
	}
	for i, s := range v.segments {
		hidden := slices.ContainsFunc(v.segments[i+1:], func(later Segment) bool { return !later.Here })
		if !said[s.sealing()] && !hidden {
			return &Bad{s.First, fmt.Sprintf("was taken out of the log, with all up to row %d, and no row says that they were sealed", s.Last)}
		}
	}
	return nil
}
