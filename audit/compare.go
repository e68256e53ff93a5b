package audit

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// grow adds the rows of a chunk to the tree, and compares that with checkpoints and stored nodes on the way.
func (v *verification) grow(ctx context.Context, c *chunk) (*Bad, error) {
	points := c.points
	for i, h := range c.leaves {
		var bad *Bad
		err := v.tree.add(h, func(n node) (err error) {
			if bad == nil {
				bad, err = v.compareNode(ctx, n)
			}
			return err
		})
		if err != nil || bad != nil {
			return bad, err
		}
		for _, list := range []*[]point{&points, &v.external} {
			if bad := v.compareAll(list, c.hashes[i][:], c.times[i]); bad != nil {
				return bad, nil
			}
		}
	}
	return nil, nil
}

// compareAll compares the tree with the checkpoints of a list that cover no more rows, and removes them from the list.
func (v *verification) compareAll(list *[]point, rowHash []byte, at time.Time) *Bad {
	for ; len(*list) > 0 && (*list)[0].size <= v.tree.size; *list = (*list)[1:] {
		if bad := v.compare((*list)[0], rowHash, at); bad != nil {
			return bad
		}
	}
	return nil
}

// compare compares the tree with a checkpoint whose last row was written at a time.
func (v *verification) compare(p point, rowHash []byte, at time.Time) *Bad {
	if v.tree.size == p.size && v.tree.root() == p.root {
		if err := p.covers(at); err != nil { // that of a newer key may cover it, too
			v.doubt(p.size, p.name, err)
			return nil
		}
		v.proven = mark{p.size, hex.EncodeToString(rowHash), p.root}
		return nil
	}
	if p.size == 0 {
		return nil
	}
	first := v.proven.size + 1
	v.chain.next, v.chain.head = first, v.proven.head
	why := fmt.Sprintf("was rewritten, or one of those after it up to row %d: %s was made over other rows", p.size, p.name)
	if len(v.keys) == 0 {
		why += ", or was changed itself, which the key would tell"
	}
	return &Bad{first, why}
}

// doubt notes a checkpoint that fits the rows, and does not count.
func (v *verification) doubt(size int64, name string, why error) {
	v.doubts++
	v.doubtful = &Bad{size, fmt.Sprintf("is not vouched for: %s does not count: %v", name, why)}
}

func (v *verification) compareNode(ctx context.Context, n node) (*Bad, error) {
	if (n.position+1)<<n.level > v.newest {
		return nil, nil // no checkpoint has covered it
	}
	stored, err := one[[]byte](ctx, v.l.db, selectNode, n.level, n.position)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return &Bad{0, fmt.Sprintf("the stored tree has lost its hash over rows %d to %d", n.position<<n.level+1, (n.position+1)<<n.level)}, nil
	case err == nil && string(stored) != string(n.hash[:]):
		return &Bad{0, fmt.Sprintf("the stored tree has another hash over rows %d to %d than the rows have", n.position<<n.level+1, (n.position+1)<<n.level)}, nil
	}
	return nil, err
}

// compareSeam compares the stored nodes of the tree at the end of a segment.
func (v *verification) compareSeam(ctx context.Context, c *chunk) (*Bad, error) {
	if c.segment == nil {
		return nil, nil
	}
	for i, n := range edgeNodes(c.last) {
		n.hash = v.tree.edge[i]
		if bad, err := v.compareNode(ctx, n); bad != nil || err != nil {
			return bad, err
		}
	}
	return nil, nil
}

// skip goes on behind a segment that is not here: the tree that was stored when it was sealed stands in
// for it, and the checkpoint at its end proves that tree.
func (v *verification) skip(ctx context.Context, c *chunk) (*Bad, error) {
	s := c.segment
	t, err := nodes{ctx: ctx, q: v.l.db}.tree(s.Last)
	if err != nil && !errors.Is(err, errAbsent) {
		return nil, err
	}
	note, err := one[[]byte](ctx, v.l.db, "SELECT note FROM checkpoints WHERE size = ?", s.Last)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	p, err := v.ring.open(note)
	if err != nil || p.size != s.Last || p.root != t.root() {
		return &Bad{s.First, fmt.Sprintf("is in a sealed segment that is not here, with all up to row %d, and no checkpoint vouches for it: %s", s.Last, s.File)}, nil
	}
	v.remarks = append(v.remarks, s.Missing())
	for len(v.external) > 0 && v.external[0].size < s.Last {
		v.remarks = append(v.remarks, fmt.Sprintf("%s, for row %d, cannot be compared: that row is in a segment that is not here", v.external[0].name, v.external[0].size))
		v.external = v.external[1:]
	}
	v.tree, v.absent = t, v.absent+s.Last-s.First+1
	v.chain = chain{next: s.Last + 1, head: s.head, prev: v.chain.head}
	if err := p.covers(s.Newest); err != nil {
		v.doubt(s.Last, "the checkpoint there", err)
	} else {
		v.proven = mark{s.Last, s.head, p.root}
	}
	head, _ := hex.DecodeString(s.head)
	return v.compareAll(&v.external, head, s.Newest), nil
}
