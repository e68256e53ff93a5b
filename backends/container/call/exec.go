package call

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// running is one command, as the server sees it.
type running struct {
	line    *Line
	streams backends.Streams
	control *yamux.Stream
	stdin   *yamux.Stream // nil without the caller's
	outputs []*output
	private *private
	begun   chan struct{} // closed when output may be seen
	busy    atomic.Int32  // writers of the caller's that are at work
	fault   string        // what the init did wrong
	done    chan struct{}
}

// What a word on a command's stream asks for: one byte, and behind sayResize a size's columns and rows, of two bytes each,
// high ones first.
const (
	sayInterrupt = 'i'
	sayTerminate = 't'
	sayCancel    = 'c'
	sayResize    = 's'
)

// Exec implements [backends.Sandbox].
func (s *sandbox) Exec(ctx context.Context, cmd backends.Command, streams backends.Streams) (backends.Result, error) {
	if err := ctx.Err(); err != nil {
		return backends.Result{}, fmt.Errorf("the program could not be started: %w", err)
	}
	done, err := s.use()
	if err != nil {
		return backends.Result{}, err
	}
	defer done()
	if size(cmd) > mostFromServer/2 {
		return backends.Result{}, errors.New("the command's arguments and environment are too long")
	}
	began := time.Now()
	r := &running{line: s.line, streams: streams, begun: make(chan struct{}), done: make(chan struct{})}
	if err := r.ask(cmd); err != nil {
		return backends.Result{}, err
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.watch(ctx, s.bound(cmd))
	}()
	contained, end, err := r.hear()
	r.finish()
	<-watched
	switch {
	case err != nil:
		return backends.Result{}, s.line.lost(err)
	case r.fault != "":
		return backends.Result{}, s.line.breach("%s", r.fault)
	case end.Failure != nil:
		return backends.Result{}, end.Failure.err()
	}
	if wrong := checkResult(ctx, *end.Result); wrong != "" {
		return backends.Result{}, s.line.breach("%s", wrong)
	}
	return believed(*end.Result, contained, time.Since(began)), nil
}

// bound is when a command must have ended, however long it took to start; 0 for never.
func (s *sandbox) bound(cmd backends.Command) time.Duration {
	if cmd.Main {
		return 0
	}
	return 2*s.wall + s.line.patience
}

// size is about how long a command's message will be, in bytes.
func size(cmd backends.Command) (n int) {
	for _, s := range slices.Concat(cmd.Args, cmd.Env, []string{cmd.Dir}) {
		n += len(s)*4/3 + 8
	}
	return n
}

// ask opens the streams and has the init begin.
func (r *running) ask(cmd backends.Command) (err error) {
	c := &command{Args: raw(cmd.Args), Env: raw(cmd.Env), Dir: []byte(cmd.Dir), Main: cmd.Main}
	if r.streams.Terminal != nil {
		c.Terminal = &r.streams.Terminal.Size
	}
	part := func(id *uint32) *yamux.Stream {
		if err != nil {
			return nil
		}
		var stream *yamux.Stream
		if stream, err = r.line.ask(request{Op: opPart}); err == nil {
			*id = stream.StreamID()
		}
		return stream
	}
	if r.streams.Stdin != nil {
		r.stdin = part(&c.Stdin)
	}
	for _, o := range []struct {
		to io.Writer
		id *uint32
	}{{r.streams.Stdout, &c.Stdout}, {r.streams.Stderr, &c.Stderr}} {
		if o.to != nil && err == nil {
			r.outputs = append(r.outputs, &output{from: part(o.id), to: o.to, busy: &r.busy, done: make(chan struct{})})
		}
	}
	if r.streams.Channel != nil {
		r.private = &private{stream: part(&c.Channel), line: r.line}
	}
	if err == nil && r.private != nil {
		r.streams.Channel(r.private)
	}
	if err == nil {
		r.control, err = r.line.ask(request{Op: opExec, Exec: c})
	}
	if err != nil {
		r.close()
		return err
	}
	for _, o := range r.outputs {
		go o.copy(r.begun)
	}
	if r.stdin != nil {
		go feed(r.stdin, r.streams.Stdin)
	}
	return nil
}

// hear listens until the command has ended. An error is one of the connection.
func (r *running) hear() (contained backends.Containment, end said, err error) {
	defer close(r.done)
	told := false
	for {
		var m said
		if err = read(r.control, &m, mostFromInit); err != nil {
			return contained, m, err
		}
		switch {
		case m.Begun != nil && !told:
			told = true
			if contained, r.fault = checkContainment(*m.Begun); r.fault != "" {
				return contained, m, nil
			}
			if r.streams.Begun != nil {
				r.streams.Begun(contained)
			}
			close(r.begun)
		case m.Failure != nil, m.Result != nil && told:
			return contained, m, nil
		default:
			r.fault = "a message that a command does not have"
			return contained, m, nil
		}
	}
}

// finish waits until all output has reached its writers: what the init sent before the result is here.
func (r *running) finish() {
	select {
	case <-r.begun:
	default:
		close(r.begun)
	}
	for _, o := range r.outputs {
		o.from.SetReadDeadline(expired)
	}
	for _, o := range r.outputs {
		<-o.done
		if o.short && r.fault == "" {
			r.fault = "a command has ended, and its output has not"
		}
	}
	r.close()
}

// close ends the streams, but for the channel: that is the caller's.
func (r *running) close() {
	if r.stdin != nil {
		r.stdin.SetWriteDeadline(expired) // nobody reads any more
		r.stdin.Close()
	}
	for _, o := range r.outputs {
		if o.from != nil {
			o.from.Close()
		}
	}
	if r.control != nil {
		r.control.Close()
	} else if r.private != nil && r.private.stream != nil {
		r.private.Close()
	}
}

// watch passes on what the caller wants of the command, until it has ended. When it must end and does
// not, the line does: the time that the caller's own writers take does not count.
func (r *running) watch(ctx context.Context, within time.Duration) {
	const step = 100 * time.Millisecond
	var up, tick <-chan time.Time
	if within > 0 {
		wall := time.NewTimer(within)
		defer wall.Stop()
		up = wall.C
	}
	cancelled := ctx.Done()
	var resized <-chan backends.Size
	if r.streams.Terminal != nil {
		resized = r.streams.Terminal.Resized
	}
	for spent := time.Duration(0); spent < r.line.patience; {
		select {
		case <-r.done:
			return
		case <-r.streams.Interrupt:
			r.say(sayInterrupt)
		case <-r.streams.Terminate:
			r.say(sayTerminate)
		case size := <-resized:
			r.say(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16([]byte{sayResize}, size.Columns), size.Rows)...)
		case <-cancelled:
			cancelled = nil
			r.say(sayCancel)
			tick = time.Tick(step)
		case <-up:
			tick = time.Tick(step)
		case <-tick:
			if r.busy.Load() == 0 {
				spent += step
			}
		}
	}
	r.line.breach("a command did not end when it had to")
}

// say tells the init something.
func (r *running) say(what ...byte) {
	r.control.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := r.control.Write(what); errors.Is(err, yamux.ErrTimeout) {
		r.line.breach("a command's words are not read")
	}
}
