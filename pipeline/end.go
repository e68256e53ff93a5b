package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// finishTimeout bounds the steps after a program once its caller has given up: the record of what the program did must
// not depend on the caller.
const finishTimeout = 10 * time.Second

// redact puts together the result's text. The streams were cleaned on their way, before they were
// cut; this is the rest.
func (r *run) redact(e ended) ended {
	r.res.Stdout, r.res.StdoutCut = e.stdout.contents()
	r.res.Stderr, r.res.StderrCut = e.stderr.contents()
	if r.measure != nil {
		r.measure()
	}
	e.lost = r.lost
	r.res.Hints = r.p.hints(r.res, e)
	r.scrub()
	return e
}

// scrub removes secrets from all text of the result but the streams.
func (r *run) scrub() {
	res := &r.res
	for _, s := range []*string{&res.Name, &res.ArtifactsWhy, &res.ArtifactsFailed, &res.Cold} {
		*s = r.clean(*s)
	}
	for _, list := range [][]string{res.Hints, res.Warnings, res.Hit} {
		for i := range list {
			list[i] = r.clean(list[i])
		}
	}
	for i := range res.Layers {
		res.Layers[i].Detail = r.clean(res.Layers[i].Detail)
	}
	for i := range res.Artifacts {
		res.Artifacts[i].Name = r.clean(res.Artifacts[i].Name)
	}
	res.StateLost = r.clean(res.StateLost)
	for _, b := range append(res.Displays, res.Value) {
		for kind, data := range maps.Clone(b) {
			delete(b, kind) // which the program has named, such as after a secret
			b[r.clean(kind)] = r.cleanCut(data)
		}
	}
	if e := res.Error; e != nil {
		e.Type, e.Message, e.Traceback = r.cleanBrief(e.Type), r.cleanCut(e.Message), r.cleanCut(e.Traceback)
	}
}

// audit makes the run's end durable, and only then hands its result out. The sandbox is taken down
// meanwhile.
func (r *run) audit(ctx context.Context, e ended) (Result, error) {
	ctx, cancel := outlast(ctx)
	defer cancel()
	closed := make(chan error, 1)
	if e.guard != nil { // nothing of it takes long
		closed <- e.Close()
	} else {
		go func() { closed <- e.Close() }()
	}
	err := r.noteEnd(ctx, e)
	if err == nil {
		err = r.flush(ctx)
	}
	if closeErr := <-closed; closeErr != nil {
		r.warn(r.clean("the sandbox could not be removed completely: " + closeErr.Error()))
	}
	if err != nil {
		return r.withhold(ctx, e, err)
	}
	if text := r.unknown.warning(); text != "" {
		r.warn(text)
	}
	r.saveReceipt(e.Artifacts)
	r.res.Timings.Total = time.Since(r.began).Microseconds()
	r.p.counters.add(r.res)
	r.storeResult(ctx)
	return r.res, nil
}

func (r *run) noteEnd(ctx context.Context, e ended) error {
	if limits := slices.Concat(r.res.Hit, []string{r.res.Limit}); strings.Join(limits, "") != "" {
		r.note(event.ResourceExceeded, facts{"limit": r.res.Limit, "hit": r.res.Hit})
	}
	if n := len(r.res.Artifacts); n > 0 {
		r.note(event.ArtifactSigned, facts{"artifacts": n, "artifacts_sha256": signer.Manifest{Artifacts: r.res.Artifacts}.SumsSHA256()})
	}
	r.captureOutput()
	return r.noteOutcome(ctx, e.inputs)
}

// withhold ends a run whose end can't be recorded: no row, no result,
// and no artifacts either. That it is so is recorded, if that can be.
func (r *run) withhold(ctx context.Context, e ended, err error) (Result, error) {
	failed := broke(StageAudit, fmt.Errorf("the program ended, but this can't be signed and written to the audit log, so its result is withheld: %w", err))
	failed.Remedy = "see whether the disk is full and the database is in order: sandboxmcp audit verify; and the key: sandboxmcp key show"
	failed.Reason = r.clean(failed.Reason)
	unsave(r.artifactDir(e), r.res.Artifacts)
	res := r.bare(failed)
	r.entries = nil
	r.noteStop(failed)
	_ = r.flush(ctx) // the log may be what fails
	return res, failed
}

// unsave removes the artifacts that were saved in dir. Those that were withheld never were: a file
// of such a name is the user's own.
func unsave(dir string, artifacts []signer.Artifact) {
	saved := false
	for _, a := range artifacts {
		if dir != "" && a.Withheld == "" {
			saved = true
			os.Remove(filepath.Join(dir, a.Name))
		}
	}
	if saved {
		os.Remove(filepath.Join(dir, "SHA256SUMS"))
	}
}

// stop ends a run that has no outcome, and records why.
func (r *run) stop(ctx context.Context, err error) (Result, error) {
	later, cancel := outlast(ctx)
	defer cancel()
	defer r.learn(later)()
	e := broke(StageBackend, err)
	e.Reason, e.Remedy = r.clean(r.unquoted(e.Reason)), r.clean(e.Remedy)
	if ctx.Err() != nil && !e.Denied {
		e.err = errors.Join(e.err, ctx.Err(), context.Cause(ctx))
	}
	res := r.bare(e)
	defer func() { r.p.counters.add(res) }()
	// Who gives up while waiting has left no trace, and pays for none.
	if e.Stage == StageAudit || res.Ended == backends.EndedCancelled && !r.started {
		return res, e
	}
	r.noteStop(e)
	if auditErr := r.flush(later); auditErr != nil {
		e.Reason += r.clean("; and this can't be written to the audit log: " + auditErr.Error())
	}
	return res, e
}

func (r *run) noteStop(e *Error) {
	reason := e.Reason
	if e.public != "" {
		reason = e.public
	}
	f := facts{"stage": e.Stage, "reason": long(reason)}
	maps.Copy(f, r.times())
	f.add("remedy", long(e.Remedy), len(e.Remedy))
	f.add("layer", e.Layer, len(e.Layer))
	if e.Denied {
		f["ended"] = backends.EndedRefused
		r.noteRun(executionRefused, f)
		return
	}
	r.noteRun(event.ExecutionFailed, f)
}

// bare is the result of a run without an outcome.
func (r *run) bare(e *Error) Result {
	res := r.res
	res.Ended, res.Refused = backends.EndedRefused, e
	if cancelled(e) && !e.Denied {
		res.Ended = backends.EndedCancelled
	}
	r.scrub()
	return Result{
		ID: res.ID, Namespace: res.Namespace, Language: r.clean(res.Language), Name: r.clean(res.Name),
		Session: r.clean(res.Session), Backend: res.Backend, Profile: res.Profile, Ended: res.Ended, Refused: e,
		Artifacts: []signer.Artifact{}, Egress: res.Egress, Layers: []backends.Layer{}, Timings: res.Timings, Warnings: res.Warnings,
	}
}

func (r *run) warn(text string) { r.res.Warnings = append(r.res.Warnings, text) }

// outlast returns a context that ends finishTimeout after ctx.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(finishTimeout, func() { cancel(context.DeadlineExceeded) })
	})
	return longer, func() { stop(); cancel(nil) }
}
