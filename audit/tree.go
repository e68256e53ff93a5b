package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/audit/sqlrows"
	"golang.org/x/mod/sumdb/tlog"
)

// tree is the Merkle tree of RFC 6962 over the hashes of the first rows, as far as needed to add rows: the hashes of
// the complete subtrees from left to right, which get smaller.
type tree struct {
	size int64
	edge []tlog.Hash
}

// node is the hash over rows position*2^level+1 to (position+1)*2^level.
type node struct {
	level    int
	position int64
	hash     tlog.Hash
}

// storedLevel is the lowest level of which nodes are kept. One row in 256 then costs a node, and a
// proof reads a few times 256 rows at most.
const storedLevel = 8

// leaf returns the tree's leaf hash of a row.
func leaf(rowHash []byte) tlog.Hash { return tlog.RecordHash(rowHash) }

// add puts the next leaf at the end, and calls keep for each stored node that it completes.
func (t *tree) add(h tlog.Hash, keep func(node) error) error {
	level := 0
	for n := t.size; n&1 == 1; n >>= 1 {
		last := len(t.edge) - 1
		h = tlog.NodeHash(t.edge[last], h)
		t.edge = t.edge[:last]
		if level++; level >= storedLevel && keep != nil {
			if err := keep(node{level, n >> 1, h}); err != nil {
				return err
			}
		}
	}
	t.edge = append(t.edge, h)
	t.size++
	return nil
}

// root returns the hash over the whole tree.
func (t *tree) root() tlog.Hash {
	last := len(t.edge) - 1
	if last < 0 {
		h, _ := tlog.TreeHash(0, nil)
		return h
	}
	h := t.edge[last]
	for _, left := range slices.Backward(t.edge[:last]) {
		h = tlog.NodeHash(left, h)
	}
	return h
}

// edgeNodes returns the places of the subtrees at the edge of a tree of that size.
func edgeNodes(size int64) (places []node) {
	for level := bits.Len64(uint64(size)) - 1; level >= 0; level-- {
		if size>>level&1 == 1 {
			places = append(places, node{level: level, position: size>>level - 1})
		}
	}
	return places
}

// storedNodes returns the number of stored nodes of a tree of that size.
func storedNodes(size int64) (n int64) {
	for size >>= storedLevel; size > 0; size >>= 1 {
		n += size
	}
	return n
}

// nodes reads the tree of a log from its stored nodes, and from the rows below those.
type nodes struct {
	ctx   context.Context   // of one call: nodes lives no longer
	q     sqlrows.Querier   // of the newest file
	older []sqlrows.Querier // of those before it that are here, in order
}

var errAbsent = errors.New("is not in the database")

const selectNode = "SELECT hash FROM tree WHERE level = ? AND position = ?"

// get returns the hash at a place. Where it is not stored, the rows tell.
func (n nodes) get(level int, position int64) (tlog.Hash, error) {
	all := append(slices.Clip(n.older), n.q)
	for _, q := range slices.Backward(all) {
		stored, err := sqlrows.One[[]byte](n.ctx, q, selectNode, level, position)
		if err == nil {
			return asHash(stored)
		} else if !errors.Is(err, sql.ErrNoRows) {
			return tlog.Hash{}, err
		}
	}
	if level <= storedLevel {
		var t tree
		first, last := position<<level+1, (position+1)<<level
		for _, q := range all {
			if err := eachHash(n.ctx, q, first+t.size, last, func(h []byte) error { return t.add(leaf(h), nil) }); err != nil {
				return tlog.Hash{}, err
			}
		}
		if t.size == 1<<level {
			return t.root(), nil
		}
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
	if len(b) != len(h) {
		return h, fmt.Errorf("a hash in the log has %d bytes", len(b))
	}
	return tlog.Hash(b), nil
}

// eachHash calls do for the hashes of rows first to last, as far as they are there without a gap.
func eachHash(ctx context.Context, q sqlrows.Querier, first, last int64, do func([]byte) error) error {
	var seq int64
	var hash sql.RawBytes
	next := first
	for err := range sqlrows.Each(ctx, q, []any{&seq, &hash}, "SELECT seq, hash FROM audit WHERE seq BETWEEN ? AND ? ORDER BY seq", first, last) {
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
