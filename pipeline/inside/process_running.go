package inside

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// StartProcess starts a program of a session that others can find while it runs. Streams and signals of its Process
// are ignored.
type StartProcess struct {
	Process
	Tag  string         // name for finding it; "" is none
	Size *backends.Size // size of its terminal; nil is none
	// Input means that input will be sent. Without it, the program reads an empty input.
	Input bool
}

// RunningProcess is a program that runs in a session. Its methods may be called concurrently.
type RunningProcess struct {
	PID int // in the sandbox
	StartProcess

	input                *feed
	interrupt, terminate chan struct{}
	resized              chan backends.Size
	kill                 context.CancelCauseFunc

	mu      sync.Mutex
	readers []*Reader

	done   chan struct{} // closed when it has ended
	result pipeline.Outcome
	err    error
}

// Location implements [session.Program].
func (r *RunningProcess) Location() (namespace, session string) { return r.Namespace, r.Session }

// maxTag bounds a program's tag, in bytes: it is stored for a while after the program's end.
const maxTag = 4 << 10

// errMany refuses a program beyond the maximum of a session.
var errMany = pipeline.Refuse(pipeline.StageQueue, "the session runs as many programs as it may", "end one, or wait for one to end")

// Start starts a program, which outlives ctx, but not the session, the pipeline and the token of ctx. The reader gets
// all of its output. An error says why it did not start.
func Start(ctx context.Context, p *pipeline.Pipeline, q StartProcess) (*RunningProcess, *Reader, error) {
	if len(q.Tag) > maxTag {
		return nil, nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the tag of a program has more than %d bytes", maxTag),
			"give it a shorter one")
	}
	q.Namespace = pipeline.NamespaceOrDefault(q.Namespace)
	life, kill := identity.WithoutRequest(ctx)
	life = pipeline.WithCaller(life, pipeline.CallerFrom(ctx))
	r := &RunningProcess{StartProcess: q, kill: kill,
		interrupt: make(chan struct{}, 16), terminate: make(chan struct{}, 16), resized: make(chan backends.Size, 1), done: make(chan struct{})}
	q.Process.Interrupt, q.Process.Terminate = r.interrupt, r.terminate
	if q.Size != nil {
		q.Process.Terminal = &backends.Terminal{Size: *q.Size, Resized: r.resized}
	}
	if q.Input || q.Size != nil {
		r.input = newFeed()
		q.Process.Stdin = r.input
	}
	q.Process.Stdout, q.Process.Stderr = output{r, q.Size != nil, false}, output{r, false, true}
	begun := make(chan struct{})
	q.Process.Begun = func(pid int) {
		r.mu.Lock()
		r.PID = pid
		r.mu.Unlock()
		close(begun)
	}
	if !session.AddProgram(p, r) {
		kill(nil)
		return nil, nil, errMany
	}
	reader := r.Attach()
	p.Go(func() {
		defer kill(nil)
		_, r.result, r.err = pipeline.Do(life, p, q.Process)
		session.DropProgram(p, r)
		if r.input != nil {
			r.input.close()
		}
		close(r.done)
	})
	stop := context.AfterFunc(ctx, func() { kill(context.Cause(ctx)) })
	select {
	case <-begun:
		if !stop() { // it was cancelled during its start
			reader.Close() // else the output would wait for it forever
			<-r.done
			return nil, nil, context.Cause(ctx)
		}
		return r, reader, nil
	case <-r.done:
		stop()
	}
	if r.err == nil { // it ended immediately
		return r, reader, nil
	}
	reader.Close()
	return nil, nil, r.err
}

// Processes lists the running programs of a session, the oldest first.
func Processes(p *pipeline.Pipeline, namespace, id string) (list []*RunningProcess) {
	for _, program := range session.Programs(p, namespace, id) {
		if r, is := program.(*RunningProcess); is && r.hasBegun() {
			list = append(list, r)
		}
	}
	return list
}

// hasBegun reports whether the program has a PID.
func (r *RunningProcess) hasBegun() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.PID != 0
}

// Attach returns a reader of the program's further output.
func (r *RunningProcess) Attach() *Reader {
	a := &Reader{of: r, parts: make(chan Chunk, 16), gone: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readers = append(r.readers, a)
	return a
}

// Done returns a channel that is closed when the program has ended and its end is logged.
func (r *RunningProcess) Done() <-chan struct{} { return r.done }

// Result returns the outcome, once Done is closed. The error is that of Do.
func (r *RunningProcess) Result() (pipeline.Outcome, error) {
	<-r.done
	return r.result, r.err
}

// Errors of RunningProcess.
var (
	ErrNoInput error = pipeline.PublicError("the program has no input that could be sent to")
	ErrEnded   error = pipeline.PublicError("the program has ended")
	ErrSignal  error = pipeline.PublicError("only SIGINT, SIGTERM and SIGKILL can be sent")
)

// Signal sends SIGINT or SIGTERM to the program's process group, or kills it with its descendants.
func (r *RunningProcess) Signal(sig syscall.Signal) error {
	to := map[syscall.Signal]chan struct{}{syscall.SIGINT: r.interrupt, syscall.SIGTERM: r.terminate}[sig]
	switch {
	case sig == syscall.SIGKILL:
		r.kill(context.Canceled)
		return nil
	case to == nil:
		return ErrSignal
	}
	select {
	case to <- struct{}{}:
	case <-r.done:
		return ErrEnded
	default: // drop it: several signals wait already
	}
	return nil
}

// Send appends to the program's input, or types it. It waits for room.
func (r *RunningProcess) Send(ctx context.Context, b []byte) error {
	if r.input == nil {
		return ErrNoInput
	}
	return r.input.send(ctx, b)
}

// CloseInput ends the program's input.
func (r *RunningProcess) CloseInput() error {
	if r.input == nil {
		return ErrNoInput
	}
	r.input.close()
	return nil
}

// Resize changes the size of the program's terminal.
func (r *RunningProcess) Resize(size backends.Size) {
	select {
	case <-r.resized: // an older size that was not applied
	default:
	}
	select {
	case r.resized <- size:
	default:
	}
}

// Chunk is a part of a program's output. It must not be modified.
type Chunk struct {
	Data     []byte
	Terminal bool // output of its terminal
	Stderr   bool
}

// output sends one stream to all readers.
type output struct {
	of               *RunningProcess
	terminal, stderr bool
}

// Write waits until each reader has the part, or is closed.
func (o output) Write(b []byte) (int, error) {
	part := Chunk{slices.Clone(b), o.terminal, o.stderr}
	o.of.mu.Lock()
	readers := slices.Clone(o.of.readers)
	o.of.mu.Unlock()
	for _, a := range readers {
		select {
		case a.parts <- part:
		case <-a.gone:
		}
	}
	return len(b), nil
}

// Reader gets a program's output from a moment on. A reader that is not read blocks the program, as a pipe does, so
// it must be closed.
type Reader struct {
	of    *RunningProcess
	parts chan Chunk
	gone  chan struct{}
	once  sync.Once
}

// Next returns the next part. The error is io.EOF after the last one, or that of the context.
func (a *Reader) Next(ctx context.Context) (Chunk, error) {
	select {
	case part := <-a.parts:
		return part, nil
	case <-ctx.Done():
		return Chunk{}, context.Cause(ctx)
	case <-a.of.done:
	}
	select {
	case part := <-a.parts:
		return part, nil
	default:
		return Chunk{}, io.EOF
	}
}

// Close stops the reader. It may be called more than once.
func (a *Reader) Close() {
	a.once.Do(func() {
		close(a.gone)
		a.of.mu.Lock()
		defer a.of.mu.Unlock()
		a.of.readers = slices.DeleteFunc(a.of.readers, func(other *Reader) bool { return other == a })
	})
}

// feed is an input that is sent in parts, and buffers little for a program that does not read.
type feed struct {
	sending chan struct{} // has a value while a sender is active
	parts   chan []byte   // parts of at most maxPart bytes
	closed  chan struct{}
	once    sync.Once
	rest    []byte
}

// maxPart bounds a part of a feed, in bytes: the capacity of a pipe.
const maxPart = 64 << 10

func newFeed() *feed {
	return &feed{sending: make(chan struct{}, 1), parts: make(chan []byte, 4), closed: make(chan struct{})}
}

// Read implements [io.Reader].
func (f *feed) Read(b []byte) (int, error) {
	for len(f.rest) == 0 {
		select {
		case f.rest = <-f.parts:
		case <-f.closed:
			select {
			case f.rest = <-f.parts:
			default:
				return 0, io.EOF
			}
		}
	}
	n := copy(b, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// send waits until no other sender is active, so that its parts stay together.
func (f *feed) send(ctx context.Context, b []byte) error {
	select {
	case f.sending <- struct{}{}:
		defer func() { <-f.sending }()
	case <-f.closed:
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-f.closed:
		return ErrEnded
	default:
	}
	for part := range slices.Chunk(b, maxPart) {
		select {
		case f.parts <- slices.Clone(part):
		case <-f.closed:
			return ErrEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (f *feed) close() { f.once.Do(func() { close(f.closed) }) }
