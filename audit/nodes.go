package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/mod/sumdb/tlog"
)

// querier is a database, a connection or a transaction to read from.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// one returns the only column of a query's first row, or sql.ErrNoRows.
func one[T any](ctx context.Context, q querier, query string, args ...any) (v T, err error) {
	err = q.QueryRowContext(ctx, query, args...).Scan(&v)
	return v, err
}

// each scans the rows of a query into dest one by one. It yields nil for each row, and an error if they end early.
func each(ctx context.Context, q querier, dest []any, query string, args ...any) iter.Seq[error] {
	return func(yield func(error) bool) {
		rows, err := q.QueryContext(ctx, query, args...)
		if err != nil {
			yield(err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(dest...); !yield(err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(err)
		}
	}
}

// nodes reads the tree of a log from its stored nodes, and from the rows below those.
type nodes struct {
	ctx    context.Context // of one call: nodes lives no longer
	q      querier
	sealed map[int64][]byte // hashes of rows that are not in the database, by number; may be nil
}

var errAbsent = errors.New("is not in the database")

const selectNode = "SELECT hash FROM tree WHERE level = ? AND position = ?"

// get returns the hash at a place. Where it is not stored, the rows tell.
func (n nodes) get(level int, position int64) (tlog.Hash, error) {
	stored, err := one[[]byte](n.ctx, n.q, selectNode, level, position)
	switch {
	case err == nil:
		return asHash(stored)
	case !errors.Is(err, sql.ErrNoRows):
		return tlog.Hash{}, err
	}
	if level <= storedLevel {
		var t tree
		first, last := position<<level+1, (position+1)<<level
		err := eachHash(n.ctx, n.q, first, last, func(h []byte) error { return t.add(leaf(h), nil) })
		if err != nil || t.size == 1<<level {
			return t.root(), err
		}
	}
	if h, ok := n.sealed[position+1]; ok && level == 0 {
		return leaf(h), nil
	}
	if level == 0 {
		return tlog.Hash{}, fmt.Errorf("row %d %w", position+1, errAbsent)
	}
	left, err := n.get(level-1, 2*position)
	if err != nil {
		return tlog.Hash{}, err
	}
	right, err := n.get(level-1, 2*position+1)
	if err != nil {
		return tlog.Hash{}, err
	}
	return tlog.NodeHash(left, right), nil
}

// tree returns the tree over the first size rows.
func (n nodes) tree(size int64) (tree, error) {
	t := tree{size: size}
	for _, place := range edgeNodes(size) {
		h, err := n.get(place.level, place.position)
		if err != nil {
			return tree{}, err
		}
		t.edge = append(t.edge, h)
	}
	return t, nil
}

// ReadHashes makes nodes a tlog.HashReader.
func (n nodes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		var err error
		if hashes[i], err = n.get(tlog.SplitStoredHashIndex(index)); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

func asHash(b []byte) (h tlog.Hash, err error) {
	if len(b) != hashSize {
		return h, fmt.Errorf("a hash in the log has %d bytes", len(b))
	}
	return tlog.Hash(b), nil
}

// eachHash calls do for the hashes of rows first to last, as far as they are there without a gap.
func eachHash(ctx context.Context, q querier, first, last int64, do func([]byte) error) error {
	var seq int64
	var hash sql.RawBytes
	next := first
	for err := range each(ctx, q, []any{&seq, &hash}, "SELECT seq, hash FROM audit WHERE seq BETWEEN ? AND ? ORDER BY seq", first, last) {
		if err != nil || seq != next {
			return err
		}
		if err := do(hash); err != nil {
			return err
		}
		next++
	}
	return nil
}
