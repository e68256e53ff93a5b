package call

import (
	"cmp"
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// job is a command that runs, as its other requests find it.
type job struct {
	ctx    context.Context // until it has ended
	cancel func()

	stderr, channel chan part
	// The server's signals. A program that so many did not stop will not care for more, and of sizes the last one counts.
	interrupt, terminate chan struct{}
	resized              chan backends.Size

	outputs [2]atomic.Pointer[output] // standard output, and standard error
}

// part is a stream of a command that is not the body of its request or response.
type part struct {
	*stream
	done chan struct{} // closed when the command needs it no more
}

// addJob makes a command known until remove is called.
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

// job returns a command once its request has arrived, nil if ctx ends before.
func (s *service) job(ctx context.Context, number uint64) *job {
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

// part hands a stream to its command, and keeps it open as long as the command needs it.
func (s *service) part(ctx context.Context, out *stream, q request) error {
	j := s.job(ctx, q.Command)
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

// take waits for the request of one of a command's streams.
func (j *job) take(from chan part) (part, error) {
	select {
	case p := <-from:
		return p, nil
	case <-j.ctx.Done():
		return part{}, j.ctx.Err()
	}
}

// finish ends a stream.
func (p part) finish() {
	p.end()
	close(p.done)
}

// control passes a signal on to its command.
func (s *service) control(ctx context.Context, q request) {
	j := s.job(ctx, q.Command)
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
		j.spare(q)
	}
}

// spare begins or ends to leave out output.
func (j *job) spare(q request) {
	which := 0
	if q.Skip.Stderr {
		which = 1
	}
	switch o := j.outputs[which].Load(); {
	case o == nil: // there is none
	case q.Op == opSkip:
		o.begin(*q.Skip)
	default:
		o.end()
	}
}

// output makes one of a command's output streams.
func (j *job) output(which int, to *stream, lasting bool) *output {
	o := &output{to: to, lasting: lasting}
	j.outputs[which].Store(o)
	return o
}

// resize replaces a size that nobody has yet.
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
		o := j.output(0, out, lasting)
		defer o.end()
		streams.Stdout = o
	}
	if c.Stderr {
		p, err := j.take(j.stderr)
		if err != nil {
			return err
		}
		defer p.finish()
		o := j.output(1, p.stream, lasting)
		defer o.end()
		streams.Stderr = o
	}
	if c.Channel {
		streams.Channel = func(program io.ReadWriteCloser) {
			p, err := j.take(j.channel)
			if err != nil {
				program.Close()
				return
			}
			s.work.Go(func() { copyChannel(program, p) })
		}
	}
	// Output waits until Begun was written before it.
	out.mu.Lock()
	begin := sync.OnceFunc(out.mu.Unlock)
	defer begin()
	var begun bool
	var beginErr error
	streams.Begun = func(held backends.Containment) {
		begun = true
		beginErr = write(writerFunc(out.write), response{Begun: &held})
		begin()
	}
	r, err := sandbox.Exec(j.ctx, backends.Command{Args: toStrings(c.Args), Env: toStrings(c.Env), Dir: string(c.Dir), Main: c.Main, Endless: c.Endless}, streams)
	begin()
	m := response{Failure: failureOf(cmp.Or(err, beginErr))}
	if !begun {
		return write(out, m)
	}
	if o := j.outputs[0].Load(); o != nil {
		o.end()
	}
	out.end()
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
