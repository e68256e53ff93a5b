package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
)

// programEnd holds what a program left when all of its processes had ended.
type programEnd struct {
	backends.Result
	stdout, stderr *stream
	shows          *shows
	measure        func(*programEnd) // waits for a cell's usage; nil where it is known
	readerWait     time.Duration     // see Stop.ReaderWait
}

func newOutcome(keep int64, stdout, stderr io.Writer, whole bool, display func(kernel.Bundle)) *programEnd {
	return &programEnd{stdout: newStream(keep, stdout, whole), stderr: newStream(keep, stderr, whole), shows: newShows(display)}
}

// spared is a writer to a stream that keeps the beginning of an output: how much comes after that is counted elsewhere, where it can be.
type spared struct {
	io.Writer
	sink *stream
}

// Spare implements [backends.Sparing]. The stream stands behind the redactor, so it is full of text without secrets: nothing that comes
// later changes what was kept.
func (s spared) Spare() *backends.Skip {
	if !s.sink.isFull() {
		return nil
	}
	return &backends.Skip{Done: s.sink.skip}
}

// pipes returns what a program writes its output to: secrets are taken out of that before it is cut. close lets out what they hold back.
func (v redactor) pipes(o *programEnd) (stdout, stderr io.Writer, close func() error) {
	masked1, masked2 := v.unknown.writer(o.stdout), v.unknown.writer(o.stderr)
	clean1, clean2 := v.writer(masked1), v.writer(masked2)
	return spared{clean1, o.stdout}, spared{clean2, o.stderr}, func() error {
		defer o.shows.close()
		defer o.stderr.Close()
		defer o.stdout.Close()
		return errors.Join(clean1.Close(), clean2.Close(), masked1.Close(), masked2.Close())
	}
}

// perform runs the program.
func (e *execution) perform(ctx context.Context) (none None, _ error) {
	defer e.time(&e.res.Timings.Exec)()
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	q := e.request
	out := newOutcome(e.limits.Output, q.Stdout, q.Stderr, q.Whole, q.Display)
	e.out = out
	e.live.begin(e, out)
	defer e.live.state("ending")
	stdout, stderr, end := e.pipes(out)
	var err error
	if e.guard != nil {
		e.outbound.Enter(e.scope())
		err = e.cell(ctx, out, stdout, stderr)
	} else {
		running, kill := context.WithCancel(ctx)
		quit, up := context.AfterFunc(running, out.loosen), time.AfterFunc(math.MaxInt64, out.loosen) // a little after its time
		begun := func(backends.Containment) { up.Reset(e.limits.Wall + time.Second) }
		streams := backends.Streams{Stdin: q.Stdin, Stdout: stdout, Stderr: stderr, Begun: begun, Terminal: q.Terminal}
		q.Stop.attend(&streams, kill)
		out.Result, err = e.sandbox.Exec(running, e.command, streams)
		quit()
		up.Stop()
		kill()
		out.readerWait = q.Stop.ReaderWait(out.Ended)
		if sent := q.Stop.leave(); sent != 0 && err == nil {
			e.res.Interrupted = map[syscall.Signal]string{syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM"}[sent]
			if out.Ended == backends.EndedSignal && out.Signal == e.res.Interrupted { // it is one that we sent
				out.Ended = backends.EndedCancelled
			}
		}
	}
	e.decided(e.outbound.Records())
	if err = errors.Join(err, end()); err != nil {
		return none, e.noProgram(broke(StageBackend, err))
	}
	e.res.addOutcome(out.Result)
	return none, e.holds(out.Contained.InForce())
}

// loosen has slow readers of the whole output hold nothing up once the program has been ended.
func (o *programEnd) loosen() {
	o.stdout.loosen()
	o.stderr.loosen()
}

// holds returns an error for layers that were required and are not among those that held. Backends promise that there are none; this
// checks once more.
func (c containment) holds(layers []string) error {
	gone := slices.DeleteFunc(slices.Clone(c.requires), func(l string) bool { return slices.Contains(layers, l) })
	if len(gone) == 0 {
		return nil
	}
	return &Error{Stage: StageBackend, Layer: gone[0], Reason: fmt.Sprintf(
		"backend %q ran the program without %s, which was required: this is a bug of sandboxmcp, and the result is withheld",
		c.backend.Name(), strings.Join(gone, ", "))}
}

// deliver waits until the caller's writers have all output of the result. It comes last, when the
// sandbox and its slot in the queue are given back: a writer that blocks holds up only its own
// caller, and only as long as that one wants to wait, or the run's Stop says.
func (o *programEnd) deliver(ctx context.Context) {
	if o == nil {
		return
	}
	if o.readerWait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.readerWait)
		defer cancel()
	}
	for _, delivered := range []chan struct{}{o.stdout.delivered, o.stderr.delivered, o.shows.delivered} {
		select {
		case <-delivered:
			continue
		case <-ctx.Done():
		}
		select {
		case <-delivered:
		case <-time.After(200 * time.Millisecond):
		}
	}
}
