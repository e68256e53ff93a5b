// Package merkle keeps the Merkle tree of RFC 6962 over the hashes of the rows of a log.
package merkle

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Tree is the Merkle tree of RFC 6962 over the hashes of the first rows, as far as needed to add rows: the hashes of
// the complete subtrees, from the largest on the left.
type Tree struct {
	Size int64
	Edge []tlog.Hash
}

// Node is the hash over rows position*2^level+1 to (position+1)*2^level.
type Node struct {
	Level    int
	Position int64
	Hash     tlog.Hash
}

// StoredLevel is the lowest level of stored nodes. So one row in 256 costs a node, and a proof reads at most a few
// times 256 rows.
const StoredLevel = 8

// Leaf returns the tree's leaf hash of a row.
func Leaf(rowHash []byte) tlog.Hash { return tlog.RecordHash(rowHash) }

// Append appends a leaf, and calls keep for each stored node that it completes.
func (t *Tree) Append(h tlog.Hash, keep func(Node) error) error {
	level := 0
	for n := t.Size; n&1 == 1; n >>= 1 {
		last := len(t.Edge) - 1
		h = tlog.NodeHash(t.Edge[last], h)
		t.Edge = t.Edge[:last]
		if level++; level >= StoredLevel && keep != nil {
			if err := keep(Node{level, n >> 1, h}); err != nil {
				return err
			}
		}
	}
	t.Edge = append(t.Edge, h)
	t.Size++
	return nil
}

// Root returns the hash over the whole tree.
func (t *Tree) Root() tlog.Hash {
	last := len(t.Edge) - 1
	if last < 0 {
		h, _ := tlog.TreeHash(0, nil)
		return h
	}
	h := t.Edge[last]
	for _, left := range slices.Backward(t.Edge[:last]) {
		h = tlog.NodeHash(left, h)
	}
	return h
}

// EdgeNodes returns the positions of the subtrees at the right edge of a tree of that size.
func EdgeNodes(size int64) (places []Node) {
	for level := bits.Len64(uint64(size)) - 1; level >= 0; level-- {
		if size>>level&1 == 1 {
			places = append(places, Node{Level: level, Position: size>>level - 1})
		}
	}
	return places
}

// StoredNodes returns the number of stored nodes of a tree of that size.
func StoredNodes(size int64) (n int64) {
	for size >>= StoredLevel; size > 0; size >>= 1 {
		n += size
	}
	return n
}

// Reader reads the tree of a log from its stored nodes, and from the rows below those.
type Reader struct {
	Ctx    context.Context     // of one call: Reader lives no longer
	Newest statefile.Querier   // of the newest file
	Older  []statefile.Querier // of the available files before it, in order
}

// ErrAbsent is the error of a row that the database does not have.
var ErrAbsent = errors.New("is not in the database")

// SelectNode reads the hash of the node of a level and a position.
const SelectNode = "SELECT hash FROM tree WHERE level = ? AND position = ?"

// nodeHash returns the hash of a node, computed from the rows if it is not stored.
func (n Reader) nodeHash(level int, position int64) (tlog.Hash, error) {
	all := append(slices.Clip(n.Older), n.Newest)
	for _, q := range slices.Backward(all) {
		if stored, err := statefile.One[[]byte](n.Ctx, q, SelectNode, level, position); err == nil {
			return asHash(stored)
		} else if !errors.Is(err, sql.ErrNoRows) {
			return tlog.Hash{}, err
		}
	}
	if level <= StoredLevel {
		var t Tree
		first, last := position<<level+1, (position+1)<<level
		for _, q := range all {
			if err := EachHash(n.Ctx, q, first+t.Size, last, func(h []byte) error { return t.Append(Leaf(h), nil) }); err != nil {
				return tlog.Hash{}, err
			}
		}
		if t.Size == 1<<level {
			return t.Root(), nil
		}
	}
	if level == 0 {
		return tlog.Hash{}, fmt.Errorf("row %d %w", position+1, ErrAbsent)
	}
	left, err := n.nodeHash(level-1, 2*position)
	if err != nil {
		return tlog.Hash{}, err
	}
	right, err := n.nodeHash(level-1, 2*position+1)
	if err != nil {
		return tlog.Hash{}, err
	}
	return tlog.NodeHash(left, right), nil
}

// Tree returns the tree over the first size rows.
func (n Reader) Tree(size int64) (Tree, error) {
	t := Tree{Size: size}
	for _, place := range EdgeNodes(size) {
		h, err := n.nodeHash(place.Level, place.Position)
		if err != nil {
			return Tree{}, err
		}
		t.Edge = append(t.Edge, h)
	}
	return t, nil
}

// ReadHashes makes Reader a tlog.HashReader.
func (n Reader) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		var err error
		if hashes[i], err = n.nodeHash(tlog.SplitStoredHashIndex(index)); err != nil {
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

// EachHash calls do for the hashes of rows first to last, up to the first missing row.
func EachHash(ctx context.Context, q statefile.Querier, first, last int64, do func([]byte) error) error {
	var seq int64
	var hash sql.RawBytes
	next := first
	for err := range statefile.Each(ctx, q, []any{&seq, &hash}, "SELECT seq, hash FROM audit WHERE seq BETWEEN ? AND ? ORDER BY seq", first,
		last) {
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
