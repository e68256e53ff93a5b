package changes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// ApplyOptions choose the paths of a set to apply. The zero value applies all paths that are not held.
type ApplyOptions struct {
	Paths []string // these and all below them; empty: all
	Held  bool     // also paths that are held and not named
	Merge bool     // merge texts that the host changed meanwhile; a named path that can't be merged is replaced
}

// Applied is the result of an apply, an undo or a drop.
type Applied struct {
	Set    Set        `json:"set"`              // without its entries
	Paths  []string   `json:"paths"`            // that changed on the host
	Merged []string   `json:"merged,omitempty"` // those of Paths that were merged
	Left   []Conflict `json:"left,omitempty"`   // the paths that were not applied, and the reasons
}

// Apply puts the after states of a set in place of the before states. If a path is not in its before state, the error
// is *Conflicts and nothing is changed. After any other error nothing is changed either, at the latest once the store
// is opened again.
func (s *Store) Apply(ctx context.Context, id string, o ApplyOptions) (a Applied, err error) {
	for i, n := range o.Paths {
		o.Paths[i] = filepath.ToSlash(filepath.Clean(n))
	}
	return s.change(ctx, id, "apply", func(h header, t *tree, content *pack) (j journal, a Applied, err error) {
		p, err := newPlan(ctx, o, t, content, h.Entries)
		if err != nil {
			return j, a, err
		}
		if len(p.conflicts) > 0 {
			return j, a, &Conflicts{p.conflicts}
		}
		j = journal{Status: StatusApplied, Steps: p.steps}
		err = readJSON(s.path(h.ID), recordName, &j.Record)
		return j, Applied{Merged: p.merged, Left: p.left}, err
	})
}

// change performs the steps that a plan returns.
func (s *Store) change(ctx context.Context, id, verb string, plan func(header, *tree, *pack) (journal, Applied, error)) (a Applied,
	err error) {
	h, err := s.find(id)
	if err != nil {
		return a, err
	}
	defer func() {
		if _, conflicts := errors.AsType[*Conflicts](err); err != nil && !conflicts {
			err = fmt.Errorf("%s changes %s: %w", verb, h.ID, err)
		}
	}()
	unlock, err := s.lock(ctx, h.Set.Dir, lockWait)
	if err != nil {
		return a, err
	}
	defer unlock()
	if err := s.recoverDir(ctx, h.Set.Dir); err != nil {
		return a, err
	}
	if h, err = s.get(h.ID); err != nil {
		return a, err
	}
	if h.Status == StatusDropped {
		return a, errors.New("it was dropped, and its content is gone")
	}
	w, err := s.newWorker(ctx, h)
	if err != nil {
		return a, err
	}
	defer w.close()
	j, a, err := plan(h, w.tree, w.content)
	if err != nil {
		return a, err
	}
	for _, st := range j.Steps {
		a.Paths = append(a.Paths, string(st.Path))
	}
	slices.SortFunc(a.Paths, comparePaths)
	a.Paths = slices.Compact(a.Paths)
	if len(j.Steps) > 0 {
		j.Token = rand.Text()
		if err = s.perform(w, h, j); err != nil {
			return a, err
		}
	}
	a.Set, err = s.Find(h.ID)
	return a, err
}
