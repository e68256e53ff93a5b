package changes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// ApplyOptions choose what of a set is applied. The zero value applies all but what is held.
type ApplyOptions struct {
	Paths []string // these and all below them; empty: all
	Held  bool     // also what is held and not named
	Merge bool     // merges what the host changed meanwhile; where that fails, a path that is named is replaced
}

// Applied is what an apply or undo did.
type Applied struct {
	Set    Set        `json:"set"`              // without its entries
	Paths  []string   `json:"paths"`            // that changed
	Merged []string   `json:"merged,omitempty"` // those of them that were merged
	Left   []Conflict `json:"left,omitempty"`   // what was not applied, and why
}

// Apply puts the after states of a set in place of the before states. Where a path is not as it was, the error is
// *Conflicts, and nothing is changed; so it is after any other error, if need be once the store is opened again.
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

// change does the steps that a plan returns.
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
