package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/files"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
)

// hostFileTime bounds one file access: a network file system may hang.
const hostFileTime = time.Minute

// Caller identifies the caller of a file access on the host.
type Caller struct {
	Namespace, Session string
	// Ask shows a person the question about a directory that is not allowed: see run.Reach. nil refuses instead.
	Ask func(context.Context, *approval.Pending)
}

// planFiles plans an action on files. Access is checked twice: an approval may end while the action waits for its
// slot.
func planFiles[T any](ctx context.Context, r *pipeline.Run, who Caller, what string, more pipeline.Facts,
	reach func(context.Context, Caller) error,
	do func(context.Context) (T, error)) (pipeline.Action[T], error) {
	check := func(ctx context.Context) error { return reach(ctx, who) }
	return pipeline.PlanAction(ctx, r, what, more, check, pipeline.Task[T]{Stage: pipeline.StageBackend, Wall: hostFileTime,
		Do: func(ctx context.Context) (none T, _ error) {
			if err := reach(ctx, Caller{Namespace: who.Namespace, Session: who.Session}); err != nil {
				return none, err
			}
			return do(ctx)
		}})
}

// planFile plans an action on one file or directory.
func planFile[T any](ctx context.Context, r *pipeline.Run, who Caller, name string, write bool, do func(context.Context, files.Access) (T,
	error)) (pipeline.Action[T], error) {
	var access files.Access
	return planFiles(ctx, r, who, name, nil, func(ctx context.Context, who Caller) (err error) {
		access, err = mayReach(ctx, r, who, name, write)
		return err
	}, func(ctx context.Context) (T, error) {
		answer, err := do(ctx, access)
		return answer, fileError(r, err, access, write)
	})
}

// mayReach returns the caller's access. If the file is not covered, it refuses or asks a person.
func mayReach(ctx context.Context, r *pipeline.Run, who Caller, name string, write bool) (files.Access, error) {
	cfg := pipeline.PackageSettings[Config](r.Pipeline)
	if !cfg.Enabled {
		return files.Access{}, errHostOff()
	}
	access := files.Access{Guard: files.NewGuard(r.Pipeline.Config.Protected, cfg.Home, cfg.Obeyed), MaxBytes: cfg.maxFile()}
	approve := func() {
		_, roots := approvedHost(r.Pipeline, r.Outcome.Namespace, who.Session, r.Outcome.ID)
		access.Roots = slices.Concat(cfg.policy().Roots(), roots)
	}
	approve()
	clean, err := files.Clean(name)
	if err == nil && !access.Holds(clean, write) && who.Ask != nil && r.Pipeline.Config.Approvals != nil {
		if err := askForFile(ctx, r, who, clean, write); err != nil {
			return access, err
		}
		approve()
	}
	if err == nil {
		err = access.Check(name, write)
	}
	return access, fileError(r, err, access, write)
}

// askForFile asks a person for access to the directory of a file.
func askForFile(ctx context.Context, r *pipeline.Run, who Caller, name string, write bool) error {
	q := approval.Question{Kind: approval.Host, What: verbOf(write) + " " + path.Dir(name), Namespace: r.Outcome.Namespace,
		Session: who.Session, Run: r.Outcome.ID}
	if r.Clean(q.What) != q.What {
		return pipeline.Refuse(pipeline.StageValidate, "the path contains a secret, so no person is asked for it", "")
	}
	if _, err := r.Pipeline.Config.Approvals.Ask(ctx, q, who.Ask); err != nil {
		return fmt.Errorf("ask a person for %s: %w", q.What, err)
	}
	return nil
}

func verbOf(write bool) string {
	if write {
		return "write"
	}
	return "read"
}

// fileError adds a remedy to the error of a file access.
func fileError(r *pipeline.Run, err error, access files.Access, write bool) error {
	var denial *files.Denial
	var own *pipeline.Error
	switch {
	case err == nil || errors.As(err, &own):
		return err
	case errors.As(err, &denial) && denial.Outside:
		return pipeline.Refuse(pipeline.StageValidate, denial.Error()+"; "+access.Describe(), remedy.AskDirectory.With(verbOf(write)))
	case errors.As(err, &denial):
		return pipeline.Refuse(pipeline.StageValidate, denial.Error(), "choose another path, or continue without it")
	case errors.Is(err, errors.ErrUnsupported):
		return pipeline.Refuse(pipeline.StageBackend, err.Error(), "mount the files for a program instead, with ", remedy.Bring)
	}
	e := pipeline.WrapError(pipeline.StageBackend, err)
	switch {
	case !e.Remedy.IsZero():
	case errors.Is(err, fs.ErrNotExist):
		e.Remedy = pipeline.Remedy{"list the directory above to see what there is; a directory has to be there before a file is written into it"}
	case errors.Is(err, fs.ErrExist):
		e.Remedy = pipeline.Remedy{remedy.Replace, " if it may be changed"}
	case errors.Is(err, results.ErrUnknown):
		e.Remedy = pipeline.Remedy{remedy.Stored, " lists the artifacts that are still stored; they are deleted after a while"}
	case errors.Is(err, fs.ErrPermission):
		e.Remedy = pipeline.Remedy{"the user that sandboxmcp runs as may not do that: choose another path"}
	}
	return e
}
