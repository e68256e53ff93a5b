package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/vault"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// This file ends effects without a result: refused, failed, or withheld since the log failed. The row of the end of one
// with a result is made in receipt.go.

// FinishTimeout bounds the steps after a program once its caller has gone: the record of the run must not depend on
// the caller.
const FinishTimeout = 10 * time.Second

// CleanBundle removes secrets from a bundle, including the MIME types that the program chose.
func (r *Run) CleanBundle(b kernel.Bundle) kernel.Bundle {
	clean := kernel.Bundle{}
	for kind, data := range b {
		clean[r.Clean(kind)] = r.CleanCut(data)
	}
	return clean
}

// withhold ends a run whose end can't be recorded: it returns no row, result or artifacts. It records that, if
// possible.
func (r *Run) withhold(ctx context.Context, err error) (Outcome, error) {
	failed := unrecordedError("the program ended, but this can't be signed and written to the audit log, so its result is withheld", false,
		err)
	res := r.outcomeOfRefusal(failed)
	r.entries = nil
	r.addStopRow(failed)
	_ = r.FlushRows(ctx) // this fails if the log itself is broken
	return res, failed
}

// refuse ends a run without an outcome, and records the reason.
func (r *Run) refuse(ctx context.Context, err error) (Outcome, error) {
	later, cancel := WithFinishTimeout(ctx)
	defer cancel()
	defer r.leaseForRedaction(later)()
	e := WrapError(StageBackend, err)
	e.Reason, e.Remedy = r.Clean(r.maskQuotedSecrets(e.Reason)), e.Remedy.Clean(r.Clean)
	if ctx.Err() != nil && !e.Denied {
		e.err = errors.Join(e.err, ctx.Err(), context.Cause(ctx))
	}
	res := r.outcomeOfRefusal(e)
	defer func() { r.Pipeline.Counters.countOutcome(res) }()
	// A caller that gives up while waiting leaves no row.
	if res.Ended == backends.EndedCancelled && !r.started {
		r.Pipeline.Journal.RemoveRun(res.ID)
		return res, e
	}
	if e.Stage == StageAudit {
		return res, e
	}
	r.addStopRow(e)
	if auditErr := r.FlushRows(later); auditErr != nil {
		e.Reason += "; this can't be written to the audit log"
		e.err = errors.Join(e.err, &UnrecordedError{auditErr})
	}
	return res, e
}

// addStopRow adds the row of a run that was refused or failed.
func (r *Run) addStopRow(e *Error) {
	f := Facts{"stage": e.Stage, "reason": LongText(cmp.Or(e.logReason, e.Reason))}
	r.addTimings(f)
	do := e.Remedy.String()
	f.AddIf("remedy", LongText(do), len(do))
	f.AddIf("layer", e.Layer, len(e.Layer))
	if e.Denied {
		f["ended"] = backends.EndedRefused
		r.AddRunRow(ExecutionRefused, f)
		return
	}
	r.AddRunRow(event.ExecutionFailed, f)
}

// outcomeOfRefusal returns the outcome of a refused run.
func (r *Run) outcomeOfRefusal(e *Error) Outcome {
	res := r.Outcome
	res.Ended, res.Refused = backends.EndedRefused, e
	if !e.Denied && (errors.Is(e, context.Canceled) || errors.Is(e, context.DeadlineExceeded)) {
		res.Ended = backends.EndedCancelled
	}
	r.Scrub()
	return Outcome{
		ID: res.ID, Namespace: res.Namespace, Language: r.Clean(res.Language), Name: r.Clean(res.Name),
		Session: r.Clean(res.Session), Backend: res.Backend, Profile: res.Profile, End: backends.End{Ended: res.Ended}, Refused: e,
		Manifest: signer.Manifest{Artifacts: []signer.Artifact{}}, Egress: res.Egress, Layers: []backends.Layer{}, Timings: res.Timings,
		Warnings: res.Warnings,
	}
}

// WarnLateRow warns that the effect is done, but its row is not written yet.
func (r *Run) WarnLateRow() {
	r.Outcome.late = true
	r.Warn(audit.OwedText)
}

// Warn adds a warning to the outcome.
func (r *Run) Warn(text ...any) { r.Outcome.Warnings = append(r.Outcome.Warnings, text) }

// WithFinishTimeout returns a context that ends FinishTimeout after ctx.
func WithFinishTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(FinishTimeout, func() { cancel(context.DeadlineExceeded) })
	})
	return longer, func() { stop(); cancel(nil) }
}

// leaseForRedaction leases the secrets that a refused request names, and those of its session, so that its error text
// can be redacted: callers mix up fields, and errors quote them. The values stay in memory until forget is called.
// This is not an access, because nothing is returned.
func (r *Run) leaseForRedaction(ctx context.Context) (forget func()) {
	if len(r.Leases) > 0 {
		return func() {}
	}
	if leasesOf := r.Pipeline.leasesOf.Load(); leasesOf != nil {
		r.Leases = (*leasesOf)(r.Outcome.Namespace, r.Outcome.Session)
	}
	var own vault.Leases
	names, _ := r.Facts["secrets"].([]string)
	for _, name := range names[:min(len(names), maxItems)] {
		if l, err := r.Pipeline.Config.Vault.Lease(ctx, r.Outcome.Namespace, []string{name}); err == nil {
			own = append(own, l)
		}
	}
	r.Leases = append(r.Leases[:len(r.Leases):len(r.Leases)], own...)
	return own.Close
}

// maskQuotedSecrets masks fields with a secret that a refusal quotes. Errors about languages and sessions quote 40
// characters, and Clean does not recognize half a secret.
func (r *Run) maskQuotedSecrets(reason string) string {
	for _, value := range []string{r.Outcome.Language, r.Outcome.Session, path.Ext(r.Outcome.Name)} {
		if r.Clean(value) != value {
			reason = strings.ReplaceAll(reason, fmt.Sprintf("%.40q", value), strconv.Quote(vault.Mark))
		}
	}
	return reason
}
