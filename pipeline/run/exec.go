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
func (e *execution) Perform(ctx context.Context) (none pipeline.None, _ error) {
	defer e.Time(&e.Outcome.Timings.Exec)()
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	q := e.request
	out := pipeline.NewProgramEnd(e.limits.Output, q.Stdout, q.Stderr, q.Whole, q.Display)
	e.out = out
	sandbox, running := e.sandbox, pipeline.Followed{Language: e.Outcome.Language, Name: e.Clean(e.Outcome.Name), Limits: e.limits, Out: out}
	running.Code, running.Use = func() []byte { return []byte(e.Clean(string(e.unfenced))) }, func() backends.Usage { return sandbox.Usage() }
	if e.guard == nil {
		running.Stop = q.Stop
	}
	e.Live.Begin(running)
	defer e.Live.State("ending")
	stdout, stderr, end := e.Pipes(out)
	var err error
	if e.guard != nil {
		e.outbound.Enter(e.scope())
		err = e.cell(ctx, out, stdout, stderr)
	} else {
		running, kill := context.WithCancel(ctx)
		quit, up := context.AfterFunc(running, out.Loosen), time.AfterFunc(math.MaxInt64, out.Loosen) // a little after its time
		begun := func(backends.Containment) { up.Reset(e.limits.Wall + time.Second) }
		streams := backends.Streams{Stdin: q.Stdin, Stdout: stdout, Stderr: stderr, Begun: begun, Terminal: q.Terminal}
		q.Stop.Attend(&streams, kill)
		out.Result, err = e.sandbox.Exec(running, e.command, streams)
		quit()
		up.Stop()
		kill()
		out.ReaderWait = q.Stop.ReaderWait(out.Ended)
		if sent := q.Stop.Leave(); sent != 0 && err == nil {
			e.Outcome.Interrupted = map[syscall.Signal]string{syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM"}[sent]
			if out.Ended == backends.EndedSignal && out.Signal == e.Outcome.Interrupted { // it is one that we sent
				out.Ended = backends.EndedCancelled
			}
		}
	}
	containment.Decided(e.Run, e.outbound.Records())
	if err = errors.Join(err, end()); err != nil {
		return none, e.noProgram(pipeline.Broke(pipeline.StageBackend, err))
	}
	e.Outcome.AddOutcome(out.Result)
	return none, e.Holds(out.Contained.InForce())
}
