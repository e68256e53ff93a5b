package audit

import (
	"math/bits"
	"slices"

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
