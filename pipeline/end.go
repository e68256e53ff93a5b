package pipeline

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// finishTimeout bounds the steps after a program once its caller has given up: the record of what the program did must
// not depend on the caller.
const finishTimeout = 10 * time.Second

// redact puts together the result's text. The streams were cleaned on their way, before they were
// cut; scrub does the rest.
func (e *execution) redact(out *programEnd) {
	e.res.Stdout, e.res.StdoutCut = out.stdout.contents()
	e.res.Stderr, e.res.StderrCut = out.stderr.contents()
	if out.measure != nil {
		out.measure(out)
		e.res.CPUMS, e.res.PeakMemory = milliseconds(out.CPU), out.PeakMemory
	}
	e.res.Hints = e.hints(out)
	e.scrub()
}

// cleaner returns a bundle without secrets, also in the names of its forms, which the program has chosen.
func (r *run) cleaner(b kernel.Bundle) kernel.Bundle {
	clean := kernel.Bundle{}
	for kind, data := range b {
		clean[r.clean(kind)] = r.cleanCut(data)
	}
	return clean
}

// seal signs what the program left, redacts the result, and notes the rows of the run's end. The sandbox is taken down meanwhile.
func (e *execution) seal(ctx context.Context) error {
	e.sign(ctx)
	e.redact(e.out)
	e.closed = make(chan error, 1)
	if e.guard != nil { // nothing of it takes long
		e.closed <- e.closeSandbox()
	} else {
		go func() { e.closed <- e.closeSandbox() }()
	}
	if limits := slices.Concat(e.res.Hit, []string{e.res.Limit}); strings.Join(limits, "") != "" {
		e.note(event.ResourceExceeded, facts{"limit": e.res.Limit, "hit": e.res.Hit})
	}
	if n := len(e.res.Artifacts); n > 0 {
		e.note(event.ArtifactSigned, facts{"artifacts": n, "artifacts_sha256": e.res.SumsSHA256()})
	}
	e.captureOutput()
	return e.signOutcome(ctx, e.out, e.inputs)
}

// settle waits until the sandbox is gone, and then keeps the result and its receipt, or nothing of what could not be recorded.
func (e *execution) settle(ctx context.Context, unrecorded error) {
	if err := <-e.closed; err != nil {
		e.warn(e.clean(HidePaths("the sandbox could not be removed completely: "+err.Error(), err)))
	}
	defer e.p.journal.endArtifacts(e.res.ID)
	if unrecorded != nil {
		e.staged.Discard()
		return
	}
	if text := e.unknown.warning(); text != "" {
		e.warn(text)
	}
	var receipt *signer.Envelope
	if e.saves != nil && e.p.cfg.Keys != nil { // the log has it by now
		receipt = &e.envelope
	}
	if err := e.staged.Save(receipt); err != nil && e.res.ArtifactsFailed == "" {
		e.res.ArtifactsFailed = e.clean(err.Error())
	}
	e.res.Timings.Total = time.Since(e.began).Microseconds()
	e.storeResult(ctx)
}

// withhold ends a run whose end can't be recorded: no row, no result,
// and no artifacts either. That it is so is recorded, if that can be.
func (r *run) withhold(ctx context.Context, err error) (Outcome, error) {
	failed := unrecorded("the program ended, but this can't be signed and written to the audit log, so its result is withheld", false, err)
	res := r.bare(failed)
	r.entries = nil
	r.noteStop(failed)
	_ = r.flush(ctx) // the log may be what fails
	return res, failed
}

// stop ends a run that has no outcome, and records why.
func (r *run) stop(ctx context.Context, err error) (Outcome, error) {
	later, cancel := outlast(ctx)
	defer cancel()
	defer r.learn(later)()
	e := broke(StageBackend, err)
	e.Reason, e.Remedy = r.clean(r.unquoted(e.Reason)), e.Remedy.Clean(r.clean)
	if ctx.Err() != nil && !e.Denied {
		e.err = errors.Join(e.err, ctx.Err(), context.Cause(ctx))
	}
	res := r.bare(e)
	defer func() { r.p.counters.add(res) }()
	// Who gives up while waiting has left no trace, and pays for none.
	if res.Ended == backends.EndedCancelled && !r.started {
		r.p.journal.endRun(res.ID)
		return res, e
	}
	if e.Stage == StageAudit {
		return res, e
	}
	r.noteStop(e)
	if auditErr := r.flush(later); auditErr != nil {
		e.Reason += "; and this can't be written to the audit log"
		e.err = errors.Join(e.err, &Unrecorded{auditErr})
	}
	return res, e
}

// noteStop notes the end of a run that was refused, or broke.
func (r *run) noteStop(e *Error) {
	f := facts{"stage": e.Stage, "reason": long(cmp.Or(e.public, e.Reason))}
	maps.Copy(f, r.times())
	do := e.Remedy.String()
	f.add("remedy", long(do), len(do))
	f.add("layer", e.Layer, len(e.Layer))
	if e.Denied {
		f["ended"] = backends.EndedRefused
		r.noteRun(executionRefused, f)
		return
	}
	r.noteRun(event.ExecutionFailed, f)
}

// bare is the result of a run without an outcome.
func (r *run) bare(e *Error) Outcome {
	res := r.res
	res.Ended, res.Refused = backends.EndedRefused, e
	if !e.Denied && (errors.Is(e, context.Canceled) || errors.Is(e, context.DeadlineExceeded)) {
		res.Ended = backends.EndedCancelled
	}
	r.scrub()
	return Outcome{
		ID: res.ID, Namespace: res.Namespace, Language: r.clean(res.Language), Name: r.clean(res.Name),
		Session: r.clean(res.Session), Backend: res.Backend, Profile: res.Profile, End: backends.End{Ended: res.Ended}, Refused: e,
		Manifest: signer.Manifest{Artifacts: []signer.Artifact{}}, Egress: res.Egress, Layers: []backends.Layer{}, Timings: res.Timings, Warnings: res.Warnings,
	}
}

// warnLate says that what was asked for is done, and its row is not written yet.
func (r *run) warnLate() {
	r.res.late = true
	r.warn(audit.OwedText)
}

func (r *run) warn(text ...any) { r.res.Warnings = append(r.res.Warnings, text) }

// outlast returns a context that ends finishTimeout after ctx.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(finishTimeout, func() { cancel(context.DeadlineExceeded) })
	})
	return longer, func() { stop(); cancel(nil) }
}
