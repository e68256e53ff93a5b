package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// compareExternal compares the tree with the checkpoints from outside of the database that cover no more rows, of which
// the last has a hash and a time.
func (v *verification) compareExternal(head string, at time.Time) *Bad {
	for ; len(v.external) > 0 && v.external[0].size <= v.tree.size; v.external = v.external[1:] {
		if bad := v.compare(v.external[0], head, at); bad != nil {
			return bad
		}
	}
	return nil
}

// compare compares the tree with a checkpoint whose last row was written at a time.
func (v *verification) compare(p point, head string, at time.Time) *Bad {
	if v.tree.size == p.size && v.tree.root() == p.root {
		if err := p.covers(at); err != nil { // that of a newer key may cover it, too
			v.doubt(p.size, p.name, err)
			return nil
		}
		v.proven = mark{p.size, head, p.root}
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
func (v *verification) compareSeam(ctx context.Context, s Segment) (*Bad, error) {
	for i, n := range edgeNodes(s.Last) {
		n.hash = v.tree.edge[i]
		if bad, err := v.compareNode(ctx, n); bad != nil || err != nil {
			return bad, err
		}
	}
	return nil, nil
}

// skip goes on behind a segment that is not here: the tree that was stored when it was sealed stands in
// for it, and the checkpoint at its end proves that tree.
func (v *verification) skip(ctx context.Context, s Segment) (*Bad, error) {
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
	return v.compareExternal(s.head, s.Newest), nil
}
