package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// running is the server's end of one command.
type running struct {
	conn    *Conn
	number  uint64
	streams backends.Streams
	busy    atomic.Int32  // active writers of the caller
	ended   chan struct{} // closed when the init has sent the result
	done    chan struct{} // closed when all output has reached its writers
}

// Exec implements [backends.Sandbox].
func (s *sandbox) Exec(ctx context.Context, cmd backends.Command, streams backends.Streams) (backends.Result, error) {
	if err := ctx.Err(); err != nil {
		return backends.Result{}, fmt.Errorf("the program could not be started: %w", err)
	}
	done, err := s.keepOpen()
	if err != nil {
		return backends.Result{}, err
	}
	defer done()
	if commandSize(cmd) > maxServerMessage/2 {
		return backends.Result{}, errors.New("the command's arguments and environment are too long")
	}
	began := time.Now()
	r := &running{conn: s.conn, number: s.commands.Add(1), streams: streams, ended: make(chan struct{}), done: make(chan struct{})}
	// The end of the caller's context requests the end of the command, whose result is still awaited. The end of
	// this context ends all requests of the command.
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var others sync.WaitGroup
	others.Go(func() { r.forwardSignals(ctx, requests, s.wallBound(cmd)) })
	contained, end, err := r.run(requests, cmd)
	cancel()
	close(r.done)
	others.Wait()
	switch {
	case err != nil:
		return backends.Result{}, err
	case end.Failure != nil:
		return backends.Result{}, end.Failure.decode()
	case end.Result == nil:
		return backends.Result{}, s.conn.protocolError("a command without a result")
	}
	if wrong := checkResult(ctx, *end.Result); wrong != "" {
		return backends.Result{}, s.conn.protocolError("%s", wrong)
	}
	end.Result.Contained, end.Result.Wall = contained, min(end.Result.Wall, time.Since(began))
	return *end.Result, nil
}

// wallBound bounds the run time of a command, independent of its start; 0 for none.
func (s *sandbox) wallBound(cmd backends.Command) time.Duration {
	if cmd.Lasting() {
		return 0
	}
	return 2*s.wall + s.conn.initTimeout
}

// commandSize estimates the length of a command's message, in bytes.
func commandSize(cmd backends.Command) (n int) {
	for _, s := range slices.Concat(cmd.Args, cmd.Env, []string{cmd.Dir}) {
		n += len(s)*4/3 + 8
	}
	return n
}

// run runs a command in the init, and returns when all output has reached its writers.
func (r *running) run(ctx context.Context, cmd backends.Command) (contained backends.Containment, end response, err error) {
	s := r.streams
	c := &command{
		Args: toBytes(cmd.Args), Env: toBytes(cmd.Env), Dir: []byte(cmd.Dir), Main: cmd.Main, Endless: cmd.Endless,
		Stdin: s.Stdin != nil, Stdout: s.Stdout != nil, Stderr: s.Stderr != nil, Channel: s.Channel != nil,
	}
	if s.Terminal != nil {
		c.Terminal = &s.Terminal.Size
	}
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	var stderr sync.WaitGroup
	var cut error // of standard error
	defer func() {
		begin()
		close(r.ended)
		stderr.Wait()
		err = cmp.Or(err, cut)
	}()
	if s.Channel != nil {
		channel, cancel := r.openChannel()
		s.Channel(channel)
		defer func() {
			if end.Result == nil { // without a result, the connection was cut
				cancel()
			}
		}()
	}
	if s.Stderr != nil {
		stderr.Go(func() {
			var from *reply
			if from, cut = r.conn.send(ctx, request{Op: opStderr, Command: r.number}, nil, unlimited); cut == nil {
				<-begun
				cut = r.passOutput(ctx, s.Stderr, true, from)
			}
		})
	}
	var stdin io.ReadCloser
	if s.Stdin != nil {
		from, to := io.Pipe() // the library can close the pipe while the caller's Read waits
		stdin = from
		go func() {
			copyAll(to, s.Stdin)
			to.Close()
		}()
	}
	out, err := r.conn.send(ctx, request{Op: opExec, Exec: c, Command: r.number}, stdin, unlimited)
	if err != nil {
		return contained, end, err
	}
	first, err := out.readNext()
	if err == nil && first.Failure == nil {
		contained, err = r.conn.checkBegun(first.Begun)
	}
	if err != nil || first.Failure != nil {
		out.Close()
		return contained, first, err
	}
	if s.Begun != nil {
		s.Begun(contained)
	}
	begin()
	if err := r.passOutput(ctx, s.Stdout, false, out); err != nil {
		return contained, end, err
	}
	end, err = out.readLast()
	return contained, end, err
}

// openChannel opens the command's channel.
func (r *running) openChannel() (*remoteConn, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	c := newRemoteConn(r.conn)
	r.conn.work.Go(func() {
		if from, err := r.conn.send(ctx, request{Op: opChannel, Command: r.number}, c.sending, unlimited); err == nil {
			c.receive(from)
		}
		cancel()
		c.sending.Close()
		c.received.Close()
	})
	return c, cancel
}

// checkBegun checks the init's report that the command has begun.
func (c *Conn) checkBegun(begun *backends.Containment) (held backends.Containment, err error) {
	fault := "an unexpected message for a command"
	if begun != nil {
		held, fault = checkContainment(*begun)
	}
	if fault != "" {
		err = c.protocolError("%s", fault)
	}
	return held, err
}

// forwardSignals forwards the caller's signals until the command has ended. If the command does not end within the
// time, which excludes that of the caller's writers, the connection ends.
func (r *running) forwardSignals(ctx, requests context.Context, within time.Duration) {
	const step = 100 * time.Millisecond
	var up, tick <-chan time.Time
	if within > 0 {
		up = time.After(within)
	}
	cancelled, ended := ctx.Done(), r.ended
	var resized <-chan backends.Size
	if r.streams.Terminal != nil {
		resized = r.streams.Terminal.Resized
	}
	control := func(q request) {
		q.Command = r.number
		r.conn.roundTrip(requests, q, r.conn.initTimeout)
	}
	for waited := time.Duration(0); waited < r.conn.initTimeout; {
		select {
		case <-r.done:
			return
		case <-r.streams.Interrupt:
			control(request{Op: opInterrupt})
		case <-r.streams.Terminate:
			control(request{Op: opTerminate})
		case size := <-resized:
			control(request{Op: opResize, Size: &size})
		case <-cancelled:
			cancelled = nil
			control(request{Op: opCancel})
			tick = time.Tick(step)
		case <-ended:
			ended = nil
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
