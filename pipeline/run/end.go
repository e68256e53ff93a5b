package run

import (
	"context"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// redact assembles the result's text. The streams were redacted while they were read, before they were cut; Scrub
// does the rest.
func (e *execution) redact(out *pipeline.ProgramEnd) {
	e.Outcome.Stdout, e.Outcome.StdoutCut = out.Stdout.Contents()
	e.Outcome.Stderr, e.Outcome.StderrCut = out.Stderr.Contents()
	if out.Measure != nil {
		out.Measure(out)
		e.Outcome.CPUMS, e.Outcome.PeakMemory = pipeline.Milliseconds(out.CPU), out.PeakMemory
	}
	e.Outcome.Hints = e.hints(out)
	e.Scrub()
}

// Seal hashes the artifacts, redacts the result, and adds the rows of the run's end. The sandbox closes meanwhile.
func (e *execution) Seal(ctx context.Context) error {
	e.sign(ctx)
	e.redact(e.out)
	e.closed = make(chan error, 1)
	if e.guard != nil { // a session's sandbox stays, so this is quick
		e.closed <- e.closeSandbox()
	} else {
		go func() { e.closed <- e.closeSandbox() }()
	}
	if e.Outcome.Limit+strings.Join(e.Outcome.Hit, "") != "" {
		e.AddRow(event.ResourceExceeded, pipeline.Facts{"limit": e.Outcome.Limit, "hit": e.Outcome.Hit})
	}
	if n := len(e.Outcome.Artifacts); n > 0 {
		e.AddRow(event.ArtifactSigned, pipeline.Facts{"artifacts": n, "artifacts_sha256": e.Outcome.SumsSHA256()})
	}
	e.CaptureOutput()
	return e.SignOutcome(ctx, e.out, e.inputs)
}

// Finish waits until the sandbox is gone. It then stores the result and its receipt, or discards them if the end was
// not recorded.
func (e *execution) Finish(ctx context.Context, unrecorded error) {
	if err := <-e.closed; err != nil {
		e.Warn(e.Clean(pipeline.HidePaths("the sandbox could not be removed completely: "+err.Error(), err)))
	}
	defer e.Pipeline.Journal.RemoveArtifacts(e.Outcome.ID)
	if unrecorded != nil {
		e.staged.Discard()
		return
	}
	if text := e.Tokens.Warning(); text != "" {
		e.Warn(text)
	}
	var receipt *signer.Envelope
	if e.saves != nil && e.Pipeline.Config.Keys != nil { // the log has the receipt by now
		receipt = &e.Envelope
	}
	if err := e.staged.Save(receipt); err != nil && e.Outcome.ArtifactsFailed == "" {
		e.Outcome.ArtifactsFailed = e.Clean(err.Error())
	}
	e.Outcome.Timings.Total = time.Since(e.Began).Microseconds()
	e.StoreResult(ctx)
}
