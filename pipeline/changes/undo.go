package changes

import (
	"context"
	"errors"
	"io/fs"
)

// Undo restores the states that the applies of a set replaced. If a path has changed since, the error is *Conflicts and
// nothing is changed.
func (s *Store) Undo(ctx context.Context, id string) (Applied, error) {
	return s.change(ctx, id, "undo", func(h header, t *tree, content *pack) (j journal, a Applied, err error) {
		var record []step
		if err := readJSON(s.path(h.ID), recordName, &record); err != nil {
			return j, a, err
		}
		if len(record) == 0 {
			return j, a, errors.New("nothing of it is applied")
		}
		p := &plan{ctx: ctx, tree: t, content: content, steps: reverse(record)}
		if err := p.checkStates(); err != nil {
			return j, a, err
		}
		if err := p.check(); err != nil {
			return j, a, err
		}
		if len(p.conflicts) > 0 {
			return j, a, &Conflicts{p.conflicts}
		}
		return journal{Status: StatusUndone, Steps: p.steps}, a, nil
	})
}

// checkStates adds a conflict for each path that is not in the state that its first step expects.
func (p *plan) checkStates() error {
	seen := map[name]bool{}
	for i := range p.steps {
		st := &p.steps[i]
		if st.To.Kind == File && !p.content.has(st.To) {
			p.conflicts = append(p.conflicts, Conflict{string(st.Path), "had more in it than could be stored"})
		}
		if seen[st.Path] {
			continue
		}
		seen[st.Path] = true
		now, info, err := p.tree.state(p.ctx, string(st.Path))
		switch {
		case p.ctx.Err() != nil:
			return context.Cause(p.ctx)
		case err != nil:
			p.conflicts = append(p.conflicts, Conflict{string(st.Path), "can't be read: " + bare(err).Error()})
		case !same(now, st.From) && !p.isRefreshed(st, now, info):
			p.conflicts = append(p.conflicts, Conflict{string(st.Path), "has changed since it was applied"})
		default:
			st.old = info
		}
	}
	return nil
}

// isRefreshed reports whether a path is an index that git has only refreshed, and sets the step's old state to the
// present one.
func (p *plan) isRefreshed(st *step, now State, info fs.FileInfo) bool {
	was := st.From
	st.From, st.old = now, info
	if !p.isSameIndex(st, was) {
		st.From = was
	}
	return st.From == now
}
