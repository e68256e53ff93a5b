package call

import (
	"cmp"
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// job is a running command, shared by its requests.
type job struct {
	ctx    context.Context // ends with the command
	cancel func()

	stderr, channel chan part
	// The server's signals. Repeated signals are dropped, and only the last size counts.
	interrupt, terminate chan struct{}
	resized              chan backends.Size

	outputs [2]atomic.Pointer[output] // standard output, and standard error
}

// part is a stream of a command outside the body of its request and response.
type part struct {
	*stream
	done chan struct{} // closed when the command no longer needs it
}

// addJob registers a command until remove is called.
func (s *service) addJob(ctx context.Context, number uint64) (j *job, remove func()) {
	j = &job{
		stderr: make(chan part), channel: make(chan part), interrupt: make(chan struct{}, 64), terminate: make(chan struct{}, 64),
		resized: make(chan backends.Size, 1),
	}
	j.ctx, j.cancel = context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[number] = j
	close(s.jobAdded)
	s.jobAdded = make(chan struct{})
	return j, func() {
		j.cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.jobs, number)
	}
}

// awaitJob returns a command once its request has arrived; nil if ctx ends first.
func (s *service) awaitJob(ctx context.Context, number uint64) *job {
	for {
		s.mu.Lock()
		j, added := s.jobs[number], s.jobAdded
		s.mu.Unlock()
		if j != nil {
			return j
		}
		select {
		case <-added:
		case <-ctx.Done():
			return nil
		}
	}
}

// serveStream passes a stream to its command, and keeps it open until the command finishes it.
func (s *service) serveStream(ctx context.Context, out *stream, q request) error {
	j := s.awaitJob(ctx, q.Command)
	if j == nil {
		return ctx.Err()
	}
	to := j.stderr
	if q.Op == opChannel {
		to = j.channel
	}
	p := part{out, make(chan struct{})}
	select {
	case to <- p:
		<-p.done
	case <-j.ctx.Done():
	case <-ctx.Done():
	}
	if q.Op == opStderr {
		return nil
	}
	return setTrailer(out.w.Header(), response{})
}

// awaitPart waits for the request of a command's stream.
func (j *job) awaitPart(from chan part) (part, error) {
	select {
	case p := <-from:
		return p, nil
	case <-j.ctx.Done():
		return part{}, j.ctx.Err()
	}
}

// finish ends a stream.
func (p part) finish() {
	p.closeWrites()
	close(p.done)
}

// signalJob passes a signal on to its command.
func (s *service) signalJob(ctx context.Context, q request) {
	j := s.awaitJob(ctx, q.Command)
	if j == nil {
		return
	}
	switch q.Op {
	case opCancel:
		j.cancel()
	case opInterrupt:
		trySend(j.interrupt)
	case opTerminate:
		trySend(j.terminate)
	case opResize:
		j.resize(*q.Size)
	case opSkip, opCarry:
		j.setSkip(q)
	}
}

// setSkip starts or stops skipping output.
func (j *job) setSkip(q request) {
	which := 0
	if q.Skip.Stderr {
		which = 1
	}
	switch o := j.outputs[which].Load(); {
	case o == nil: // the command has no such output
	case q.Op == opSkip:
		o.startSkip(*q.Skip)
	default:
		o.endSkip()
	}
}

// newOutput makes an output stream of a command.
func (j *job) newOutput(which int, to *stream, lasting bool) *output {
	o := &output{to: to, lasting: lasting}
	j.outputs[which].Store(o)
	return o
}

// resize replaces an unread size.
func (j *job) resize(size backends.Size) {
	select {
	case <-j.resized:
	default:
	}
	j.resized <- size
}

// trySend sends on c if there is room.
func trySend(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// runCommand executes a command. Its response is Begun and standard output, and in the trailer the result.
func (s *service) runCommand(ctx context.Context, sandbox backends.Sandbox, out *stream, number uint64, c command) error {
	j, remove := s.addJob(ctx, number)
	defer remove()
	streams := backends.Streams{Interrupt: j.interrupt, Terminate: j.terminate}
	if c.Terminal != nil {
		streams.Terminal = &backends.Terminal{Size: *c.Terminal, Resized: j.resized}
	}
	if c.Stdin {
		streams.Stdin = onlyReader{out.in}
	}
	lasting := c.Main || c.Endless
	if c.Stdout {
		o := j.newOutput(0, out, lasting)
		defer o.endSkip()
		streams.Stdout = o
	}
	if c.Stderr {
		p, err := j.awaitPart(j.stderr)
		if err != nil {
			return err
		}
		defer p.finish()
		o := j.newOutput(1, p.stream, lasting)
		defer o.endSkip()
		streams.Stderr = o
	}
	if c.Channel {
		streams.Channel = func(program io.ReadWriteCloser) {
			p, err := j.awaitPart(j.channel)
			if err != nil {
				program.Close()
				return
			}
			s.work.Go(func() { copyChannel(program, p) })
		}
	}
	// Output waits until Begun has been written.
	out.mu.Lock()
	begin := sync.OnceFunc(out.mu.Unlock)
	defer begin()
	var begun bool
	var beginErr error
	streams.Begun = func(held backends.Containment) {
		begun = true
		beginErr = writeMessage(writerFunc(out.write), response{Begun: &held})
		begin()
	}
	r, err := sandbox.Exec(j.ctx, backends.Command{Args: toStrings(c.Args), Env: toStrings(c.Env), Dir: string(c.Dir), Main: c.Main,
		Endless: c.Endless}, streams)
	begin()
	m := response{Failure: failureOf(cmp.Or(err, beginErr))}
	if !begun {
		return writeMessage(out, m)
	}
	if o := j.outputs[0].Load(); o != nil {
		o.endSkip()
	}
	out.closeWrites()
	if m.Failure == nil {
		r.Contained = backends.Containment{} // Begun has reported it
		m.Result = &r
	}
	return setTrailer(out.w.Header(), m)
}

// copyChannel moves bytes between a program and the server on the command's channel, until either closes it. It may
// outlast the command, since the program's last bytes must still arrive.
func copyChannel(program io.ReadWriteCloser, p part) {
	var down sync.WaitGroup
	down.Go(func() {
		copyAll(program, p.in)
		program.Close()
	})
	copyAll(p, program)
	program.Close()
	p.finish()
	down.Wait()
}
