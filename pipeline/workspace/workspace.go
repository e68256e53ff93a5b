// Package workspace lets programs work on directories of the host without changing them. The changes of a run become a
// change set. A person applies, drops or undoes it: each of these actions is an effect, with rows and a receipt.
//
// A file calls those below it, in this order: ask, apply, diff, named, workspace, repository.
package workspace

import (
	"context"
	"fmt"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// Config names the store of change sets, and the directories in which agents may work. The zero value has none:
// programs can't propose changes.
type Config struct {
	Dir   string           // of the store; created if missing
	Named map[string]Named // by name
}

// Rows of the audit log.
const (
	Proposed = "changes.proposed"
	Applied  = "changes.applied"
	Dropped  = "changes.dropped"
	Undone   = "changes.undone"
)

// CheckProposal refuses a run with proposed changes if this server has no store for change sets.
func CheckProposal(p *pipeline.Pipeline) error {
	if pipeline.PackageSettings[Config](p).Dir == "" {
		return pipeline.Refuse(pipeline.StageValidate, "change sets can't be stored here", "show the directory with :ro or :rw instead")
	}
	return nil
}

// Propose stores the changes of a run's sandbox as a change set with the run's id, and adds its summary to the outcome.
// If nothing changed, nothing is stored. Earlier undecided change sets of the same session are dropped: the new one
// contains their changes.
func Propose(ctx context.Context, r *pipeline.Run, v View) error {
	store, err := openStore(r.Pipeline)
	if err != nil {
		return err
	}
	set, err := store.Propose(ctx, changes.Proposal{
		ID: r.Outcome.ID, Namespace: r.Outcome.Namespace, Session: r.Outcome.Session, Dir: v.Dir, Began: v.Began,
		Changes: v.Files.Changes, Secret: r.SecretScanner(), Redact: r.Leases.Redact,
	})
	if err == nil && r.Outcome.Session != "" {
		err = dropEarlier(ctx, store, set, r)
	}
	if err != nil {
		return fmt.Errorf("store the changes of %s: %w", v.Dir, err)
	}
	if len(set.Entries) == 0 {
		return nil
	}
	if r.Changes, err = signedChanges(set); err != nil {
		return err
	}
	facts := factsOf(set)
	facts["changes_sha256"] = r.Changes.SHA256
	r.AddRow(Proposed, facts)
	set.Entries = nil
	r.Outcome.Changes = &set
	return nil
}

// View is a sandbox's view of a directory of the host.
type View struct {
	Dir   string    // of the host
	Began time.Time // when programs first saw it, from changes.Began
	Files backends.Files

	Policy Policy // of a named directory; "" proposes
}

// dropEarlier drops the undecided change sets of a session, except the newest one.
func dropEarlier(ctx context.Context, store *changes.Store, newest changes.Set, r *pipeline.Run) error {
	earlier, err := store.List(changes.Filter{Namespace: r.Outcome.Namespace, Session: r.Outcome.Session, Status: changes.StatusProposed})
	for _, set := range earlier {
		if set.ID == newest.ID {
			continue
		}
		if err := store.Drop(ctx, set.ID); err != nil {
			return err
		}
		facts := factsOf(set)
		facts["replaced_by"] = newest.ID
		r.AddRow(Dropped, facts)
	}
	return err
}

// signedChanges returns a change set in the form that receipts contain.
func signedChanges(set changes.Set) (*signer.ChangeSet, error) {
	return signer.NewChangeSet(set.Dir, func(yield func(signer.PathChange) bool) {
		for _, e := range set.Entries {
			c := signer.NewPathChange(e.Path, signer.PathState(e.Before), signer.PathState(e.After))
			c.Held, c.Refused = e.Held != "", e.Refused != ""
			if !yield(c) {
				return
			}
		}
	})
}

func factsOf(set changes.Set) pipeline.Facts {
	n := set.Counts
	f := pipeline.Facts{"changes": set.ID, "directory": set.Dir, "changed": n.Changed, "added": n.Added, "removed": n.Removed, "held": n.Held,
		"refused": n.Refused}
	f.AddIf("session", set.Session, len(set.Session))
	return f
}

// opened is the store of a pipeline, or the error of opening it.
type opened struct {
	store *changes.Store
	err   error
}

func openStore(p *pipeline.Pipeline) (*changes.Store, error) {
	if err := CheckProposal(p); err != nil {
		return nil, err
	}
	o := pipeline.PackageState(p, func(p *pipeline.Pipeline) *opened {
		store, err := changes.Open(changes.Config{Dir: pipeline.PackageSettings[Config](p).Dir})
		return &opened{store, err}
	})
	return o.store, o.err
}
