package run

import (
	"context"
	"errors"
	"math"
	"syscall"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
)

// Perform runs the program.
func (e *execution) Perform(ctx context.Context) (none pipeline.NoAnswer, _ error) {
	defer e.TimeStage(&e.Outcome.Timings.Exec)()
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	q := e.request
	out := pipeline.NewProgramEnd(e.limits.Output, q.Stdout, q.Stderr, q.Whole, q.Display)
	e.out = out
	sandbox, running := e.sandbox, pipeline.FollowedProgram{Language: e.Outcome.Language, Name: e.Clean(e.Outcome.Name), Limits: e.limits,
		Out: out}
	running.Code, running.Usage = func() []byte { return []byte(e.Clean(string(e.unfenced))) },
		func() backends.Usage { return sandbox.Usage() }
	if e.guard == nil {
		running.Stop = q.Stop
	}
	e.Active.StartProgram(running)
	defer e.Active.SetState("ending")
	stdout, stderr, end := e.OutputWriters(out)
	var err error
	if e.guard != nil {
		e.outbound.SetScope(e.scope())
		err = e.cell(ctx, out, stdout, stderr)
	} else {
		running, kill := context.WithCancel(ctx)
		// it fires shortly after the program's time is up
		quit, timer := context.AfterFunc(running, out.StopWaitingForReaders), time.AfterFunc(math.MaxInt64, out.StopWaitingForReaders)
		begun := func(backends.Containment) { timer.Reset(e.limits.Wall + time.Second) }
		streams := backends.Streams{Stdin: q.Stdin, Stdout: stdout, Stderr: stderr, Begun: begun, Terminal: q.Terminal}
		q.Stop.AttachProgram(&streams, kill)
		out.Result, err = e.sandbox.Exec(running, e.command, streams)
		quit()
		timer.Stop()
		kill()
		out.ReaderTimeout = q.Stop.ReaderTimeout(out.Ended)
		if sent := q.Stop.DetachProgram(); sent != 0 && err == nil {
			e.Outcome.Interrupted = map[syscall.Signal]string{syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM"}[sent]
			if out.Ended == backends.EndedSignal && out.Signal == e.Outcome.Interrupted { // we sent this signal
				out.Ended = backends.EndedCancelled
			}
		}
	}
	containment.AddDecisions(e.Run, e.outbound.EndScope())
	if err = errors.Join(err, end()); err != nil {
		return none, e.addProgramHint(pipeline.WrapError(pipeline.StageBackend, err))
	}
	e.Outcome.AddProgramResult(out.Result)
	return none, e.CheckLayers(out.Contained.InForce())
}
