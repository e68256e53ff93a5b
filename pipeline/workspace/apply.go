package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Apply writes a change set to its directory on the host: the named paths, or all paths that are not held. If the host
// has changed one of them since, nothing is written, and the error lists the conflicts.
type Apply struct {
	Namespace string
	ID        string
	Paths     []string // relative to the directory; nil is all paths that are not held
	Merge     bool     // merge texts that changed on both sides
}

func (q Apply) Subject() pipeline.Subject { return pipeline.About("changes_apply", q.Namespace, "") }

func (q Apply) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[changes.Applied], error) {
	return plan(ctx, r, q.ID, Applied, func(ctx context.Context, store *changes.Store, id string) (changes.Applied, error) {
		return store.Apply(ctx, id, changes.ApplyOptions{Paths: q.Paths, Merge: q.Merge})
	})
}

// Undo restores the files that an applied change set replaced.
type Undo struct{ Namespace, ID string }

func (q Undo) Subject() pipeline.Subject { return pipeline.About("changes_undo", q.Namespace, "") }

func (q Undo) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[changes.Applied], error) {
	return plan(ctx, r, q.ID, Undone, func(ctx context.Context, store *changes.Store, id string) (changes.Applied, error) {
		return store.Undo(ctx, id)
	})
}

// Drop deletes the content of a change set. Its summary stays for a while.
type Drop struct{ Namespace, ID string }

func (q Drop) Subject() pipeline.Subject { return pipeline.About("changes_drop", q.Namespace, "") }

func (q Drop) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[changes.Applied], error) {
	return plan(ctx, r, q.ID, Dropped, func(ctx context.Context, store *changes.Store, id string) (changes.Applied, error) {
		if err := store.Drop(ctx, id); err != nil {
			return changes.Applied{}, err
		}
		set, err := store.Find(id)
		return changes.Applied{Set: set}, err
	})
}

// plan plans an action on a change set of the namespace; row is the kind of the row at its end.
func plan(ctx context.Context, r *pipeline.Run, id, row string,
	do func(ctx context.Context, store *changes.Store, id string) (changes.Applied, error)) (pipeline.Action[changes.Applied], error) {
	store, err := openStore(r.Pipeline)
	if err != nil {
		return nil, err
	}
	set, err := find(store.Find, id, func(own string) bool { return own == r.Outcome.Namespace })
	if err != nil {
		return nil, err
	}
	if set.Status == changes.StatusDropped {
		return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("change set %s was dropped, and its content is gone", set.ID),
			"run the program again")
	}
	facts := factsOf(set)
	return pipeline.PlanAction(ctx, r, set.Dir, facts, func(context.Context) error { return nil }, pipeline.Task[changes.Applied]{
		Stage: pipeline.StageBackend,
		Do: func(ctx context.Context) (changes.Applied, error) {
			done, err := do(ctx, store, set.ID)
			if err != nil {
				return done, refusal(err, row)
			}
			r.AddRunRow(row, appliedFacts(done, ""))
			return done, nil
		},
	})
}

// appliedFacts returns the facts of a row about an action on a change set; by is the policy that decided it, if any.
func appliedFacts(done changes.Applied, by string) pipeline.Facts {
	f := factsOf(done.Set)
	maps.Copy(f, pipeline.Facts{"paths": done.Paths, "count": len(done.Paths), "left": len(done.Left)})
	f.AddIf("by", by, len(by))
	return f
}

// find returns a change set by the method get of a store, if sees accepts its namespace.
func find(get func(id string) (changes.Set, error), id string, sees func(namespace string) bool) (changes.Set, error) {
	set, err := get(id)
	if err == nil && !sees(set.Namespace) {
		err = fmt.Errorf("%.40q: %w", id, changes.ErrUnknown)
	}
	if err != nil {
		return set, refusal(err, "")
	}
	return set, nil
}

// refusal turns an error of the store into a refusal with a remedy; row is the kind of row of the action.
func refusal(err error, row string) error {
	var conflicts *changes.Conflicts
	switch {
	case errors.Is(err, changes.ErrUnknown):
		return pipeline.RefuseBecause(err, pipeline.StageValidate, "list them: sandboxmcp changes")
	case errors.As(err, &conflicts) && row == Undone:
		return pipeline.Refuse(pipeline.StageValidate, err.Error(), "make them what they were when the change set was applied, or restore the "+
			"others by hand")
	case errors.As(err, &conflicts):
		return pipeline.Refuse(pipeline.StageValidate, err.Error(), remedy.Command.With("sandboxmcp changes apply --merge"),
			" merges texts, and takes the program's version of the paths that are named with it")
	}
	return err
}
