package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// ended is a run whose program has ended, and with it all of its processes.
type ended struct {
	started
	stdout, stderr *stream
	lost           int64 // see backends.Usage
}

func (r *run) exec(ctx context.Context, s started) (ended, error) {
	defer r.time(&r.res.Timings.Exec)()
	if ctx.Err() != nil {
		return ended{}, context.Cause(ctx)
	}
	e := ended{started: s, stdout: newStream(s.limits.Output, s.Stdout, s.Whole), stderr: newStream(s.limits.Output, s.Stderr, s.Whole)}
	r.outputs = [2]*stream{e.stdout, e.stderr}
	out1, out2 := r.unknown.writer(e.stdout), r.unknown.writer(e.stderr)
	stdout, stderr := s.leases.Writer(out1), s.leases.Writer(out2)
	var out backends.Result
	var err error
	s.outbound.Enter(s.scope(r))
	if s.guard != nil {
		out, err = r.cell(ctx, s, stdout, stderr)
	} else {
		running, kill := context.WithCancel(ctx)
		begun, stop := e.loosen(running)
		streams := backends.Streams{Stdin: s.Stdin, Stdout: stdout, Stderr: stderr, Begun: begun, Terminal: s.Terminal}
		s.Stop.attend(&streams, kill)
		out, err = s.sandbox.Exec(running, s.command, streams)
		stop()
		kill()
		if sent := s.Stop.leave(); sent != 0 && err == nil {
			r.res.Interrupted = signalName(sent)
			if out.Ended == backends.EndedSignal && out.Signal == r.res.Interrupted { // it is one that we sent
				out.Ended = backends.EndedCancelled
			}
		}
	}
	r.leave(s.routed)
	err = errors.Join(err, stdout.Close(), stderr.Close(), out1.Close(), out2.Close())
	e.stdout.Close()
	e.stderr.Close()
	if err != nil {
		return ended{}, s.noProgram(broke(StageBackend, err))
	}
	r.res.addOutcome(out)
	r.lost = out.Lost
	if gone := lacking(s.requires, out.Contained.InForce()); gone != nil {
		return ended{}, &Error{Stage: StageBackend, Layer: gone[0], Reason: fmt.Sprintf(
			"backend %q ran the program without %s, which was required: this is a bug of sandboxmcp, and the result is withheld",
			s.backend.Name(), strings.Join(gone, ", "))}
	}
	return e, nil
}

// loosen has slow readers of the whole output hold nothing up once the program has been ended: when ctx ends, or a little
// after its time is up, which is counted from when begun is called.
func (e ended) loosen(ctx context.Context) (begun func(backends.Containment), stop func()) {
	loose := func() { e.stdout.loosen(); e.stderr.loosen() }
	quit := context.AfterFunc(ctx, loose)
	up := time.AfterFunc(math.MaxInt64, loose)
	return func(backends.Containment) { up.Reset(e.limits.Wall + time.Second) }, func() { quit(); up.Stop() }
}

// lacking returns the required layers that did not hold. Backends promise that there are none;
// this checks once more.
func lacking(required, held []string) []string {
	var gone []string
	for _, l := range required {
		if !slices.Contains(held, l) {
			gone = append(gone, l)
		}
	}
	return gone
}

// show waits until the caller's writers have all output of the result. It comes last, when the
// sandbox and its slot in the queue are given back: a writer that blocks holds up only its own
// caller, and only as long as that one wants to wait.
func (r *run) show(ctx context.Context) {
	for _, s := range r.outputs {
		if s == nil {
			continue
		}
		select {
		case <-s.delivered:
			continue
		case <-ctx.Done():
		}
		select {
		case <-s.delivered:
		case <-time.After(200 * time.Millisecond):
		}
	}
}
