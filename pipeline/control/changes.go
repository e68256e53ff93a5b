package control

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
)

// ChangesQuery chooses change sets.
type ChangesQuery struct {
	InNamespace
	Session string `json:"session,omitempty" about:"Only this session's." range:"..64"`
	Status  string `json:"status,omitempty" about:"Only this status: proposed, applying, applied, dropped or undone." range:"..16"`
}

// OfChanges names a change set.
type OfChanges struct {
	ID string `json:"id" about:"The id of a change set, or a unique prefix." required:"true" range:"..64"`
}

// ChangesPart names a change set, and paths of it.
type ChangesPart struct {
	OfChanges
	Paths []string `json:"paths,omitempty" about:"These paths and all below them. Default: all that is not held back." range:"..10000" each:"A path, relative to the directory." eachrange:"..4096"`
	Merge bool     `json:"merge,omitempty" about:"Merges texts that the host has changed, too."`
}

// ChangesDiff is the difference of a change set, without the secrets of its namespace.
type ChangesDiff struct {
	Diff string `json:"diff"`
}

// maxEntries bounds the entries of a change set in one answer; its summary counts all.
const maxEntries = 10_000

func (a *API) listChanges(ctx context.Context, q *ChangesQuery) ([]changes.Set, error) {
	list, err := workspace.List(a.c.Pipeline, changes.Filter{Namespace: q.Namespace, Session: q.Session, Status: q.Status})
	sees := requesterOf(ctx).sees
	return slices.DeleteFunc(list, func(s changes.Set) bool { return !sees(s.Namespace) }), err
}

func (a *API) getChanges(ctx context.Context, q *OfChanges) (changes.Set, error) {
	set, err := a.findChanges(ctx, q)
	set.Entries = set.Entries[:min(len(set.Entries), maxEntries)]
	return set, err
}

func (a *API) findChanges(ctx context.Context, q *OfChanges) (changes.Set, error) {
	set, err := workspace.Find(a.c.Pipeline, q.ID, requesterOf(ctx).sees)
	if errors.Is(err, changes.ErrUnknown) {
		return set, failure(http.StatusNotFound, "%v", err)
	}
	return set, err
}

func (a *API) diffChanges(ctx context.Context, q *ChangesPart) (ChangesDiff, error) {
	set, err := a.findChanges(ctx, &q.OfChanges)
	if err != nil {
		return ChangesDiff{}, err
	}
	text, err := workspace.Diff(ctx, a.c.Pipeline, set, q.Paths)
	return ChangesDiff{text}, err
}

func (a *API) applyChanges(ctx context.Context, q *ChangesPart) (changes.Applied, error) {
	return a.writeHost(ctx, &q.OfChanges, func(set changes.Set) pipeline.Effect[changes.Applied] {
		return workspace.Apply{Namespace: set.Namespace, ID: set.ID, Paths: q.Paths, Merge: q.Merge}
	})
}

func (a *API) undoChanges(ctx context.Context, q *OfChanges) (changes.Applied, error) {
	return a.writeHost(ctx, q, func(set changes.Set) pipeline.Effect[changes.Applied] {
		return workspace.Undo{Namespace: set.Namespace, ID: set.ID}
	})
}

func (a *API) dropChanges(ctx context.Context, q *OfChanges) (changes.Applied, error) {
	return a.decideChanges(ctx, q, func(set changes.Set) pipeline.Effect[changes.Applied] {
		return workspace.Drop{Namespace: set.Namespace, ID: set.ID}
	})
}

// writeHost decides about a change set in a way that writes to its directory, which only root may do if approvals are
// root's.
func (a *API) writeHost(ctx context.Context, q *OfChanges, effect func(changes.Set) pipeline.Effect[changes.Applied]) (changes.Applied, error) {
	if b := a.c.Approvals; b != nil && b.RequiresRoot() && requesterOf(ctx).channel() != approval.Root() {
		return changes.Applied{}, failure(http.StatusForbidden, "only root applies changes here, or undoes them: approvals.confirm is root")
	}
	return a.decideChanges(ctx, q, effect)
}

func (a *API) decideChanges(ctx context.Context, q *OfChanges, effect func(changes.Set) pipeline.Effect[changes.Applied]) (changes.Applied, error) {
	set, err := a.findChanges(ctx, q)
	if err != nil {
		return changes.Applied{}, err
	}
	done, _, err := pipeline.Do(ctx, a.c.Pipeline, effect(set))
	return done, err
}
