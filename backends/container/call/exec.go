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

// running is the server's end of one command.
type running struct {
	conn    *Conn
	streams backends.Streams
	stream  *yamux.Stream
	stdin   *yamux.Stream // nil without the caller's
	outputs []*output
	channel *channel
	begun   chan struct{} // closed when output may be passed on
	busy    atomic.Int32  // writers of the caller's that are at work
	fault   string        // what the init did wrong
	done    chan struct{}
}

// The server's requests on a command's stream: one byte, and behind controlResize a size's columns and rows, of two bytes each,
// high ones first.
const (
	controlInterrupt = 'i'
	controlTerminate = 't'
	controlCancel    = 'c'
	controlResize    = 's'
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
	if size(cmd) > maxServerMessage/2 {
		return backends.Result{}, errors.New("the command's arguments and environment are too long")
	}
	began := time.Now()
	r := &running{conn: s.conn, streams: streams, begun: make(chan struct{}), done: make(chan struct{})}
	if err := r.ask(cmd); err != nil {
		return backends.Result{}, err
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.watch(ctx, s.wallBound(cmd))
	}()
	contained, end, err := r.readResult()
	r.finish()
	<-watched
	switch {
	case err != nil:
		return backends.Result{}, s.conn.lostError(err)
	case r.fault != "":
		return backends.Result{}, s.conn.protocolError("%s", r.fault)
	case end.Failure != nil:
		return backends.Result{}, end.Failure.err()
	}
	if wrong := checkResult(ctx, *end.Result); wrong != "" {
		return backends.Result{}, s.conn.protocolError("%s", wrong)
	}
	end.Result.Contained, end.Result.Wall = contained, min(end.Result.Wall, time.Since(began))
	return *end.Result, nil
}

// wallBound is the time within which a command must end, however long it took to start; 0 for none.
func (s *sandbox) wallBound(cmd backends.Command) time.Duration {
	if cmd.Main {
		return 0
	}
	return 2*s.wall + s.conn.initTimeout
}

// size estimates the length of a command's message, in bytes.
func size(cmd backends.Command) (n int) {
	for _, s := range slices.Concat(cmd.Args, cmd.Env, []string{cmd.Dir}) {
		n += len(s)*4/3 + 8
	}
	return n
}

// ask opens the streams and has the init begin.
func (r *running) ask(cmd backends.Command) (err error) {
	c := &command{Args: toBytes(cmd.Args), Env: toBytes(cmd.Env), Dir: []byte(cmd.Dir), Main: cmd.Main}
	if r.streams.Terminal != nil {
		c.Terminal = &r.streams.Terminal.Size
	}
	part := func(id *uint32) *yamux.Stream {
		if err != nil {
			return nil
		}
		var stream *yamux.Stream
		if stream, err = r.conn.openRequest(request{Op: opPart}); err == nil {
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
		r.channel = &channel{stream: part(&c.Channel), conn: r.conn}
	}
	if err == nil && r.channel != nil {
		r.streams.Channel(r.channel)
	}
	if err == nil {
		r.stream, err = r.conn.openRequest(request{Op: opExec, Exec: c})
	}
	if err != nil {
		r.close()
		return err
	}
	for _, o := range r.outputs {
		go o.copy(r.begun)
	}
	if r.stdin != nil {
		go copyInput(r.stdin, r.streams.Stdin)
	}
	return nil
}

// readResult reads responses until the command has ended. An error is one of the connection.
func (r *running) readResult() (contained backends.Containment, end response, err error) {
	defer close(r.done)
	begun := false
	for {
		var m response
		if err = read(r.stream, &m, maxInitMessage); err != nil {
			return contained, m, err
		}
		switch {
		case m.Begun != nil && !begun:
			begun = true
			if contained, r.fault = checkContainment(*m.Begun); r.fault != "" {
				return contained, m, nil
			}
			if r.streams.Begun != nil {
				r.streams.Begun(contained)
			}
			close(r.begun)
		case m.Failure != nil, m.Result != nil && begun:
			return contained, m, nil
		default:
			r.fault = "a message that a command does not have"
			return contained, m, nil
		}
	}
}

// finish waits until all output has reached its writers: the init sent it before the result.
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

// close ends the streams, except for the channel, which belongs to the caller.
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
	if r.stream != nil {
		r.stream.Close()
	} else if r.channel != nil && r.channel.stream != nil {
		r.channel.Close()
	}
}

// watch passes the caller's requests on until the command has ended. A command that must end and does not ends the
// connection: time that the caller's own writers take does not count.
func (r *running) watch(ctx context.Context, within time.Duration) {
	const step = 100 * time.Millisecond
	var up, tick <-chan time.Time
	if within > 0 {
		up = time.After(within)
	}
	cancelled := ctx.Done()
	var resized <-chan backends.Size
	if r.streams.Terminal != nil {
		resized = r.streams.Terminal.Resized
	}
	for waited := time.Duration(0); waited < r.conn.initTimeout; {
		select {
		case <-r.done:
			return
		case <-r.streams.Interrupt:
			r.control(controlInterrupt)
		case <-r.streams.Terminate:
			r.control(controlTerminate)
		case size := <-resized:
			r.control(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16([]byte{controlResize}, size.Columns), size.Rows)...)
		case <-cancelled:
			cancelled = nil
			r.control(controlCancel)
			tick = time.Tick(step)
		case <-up:
			tick = time.Tick(step)
		case <-tick:
			if r.busy.Load() == 0 {
				waited += step
			}
		}
	}
	r.conn.protocolError("a command did not end when it had to")
}

// control sends a request to the init.
func (r *running) control(what ...byte) {
	r.stream.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := r.stream.Write(what); errors.Is(err, yamux.ErrTimeout) {
		r.conn.protocolError("a command's words are not read")
	}
}
