package command

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"
)

// ErrUnread is the error of writes that the end of a command did not wait for.
var ErrUnread = errors.New("the reader of the output did not read, and the command ended without it")

// lastWrites is how long all writes together may block once a command is to end.
const lastWrites = time.Second

// Writer is standard output or standard error. A write waits for its reader for as long as that takes, as others' do;
// once the command is to end, because of a signal, the end of its input or its time limit, its writes wait for
// lastWrites at most, and the later ones fail. A write to a pipe or a terminal that nobody reads can't be interrupted,
// so a goroutine of its own performs it.
type Writer struct {
	to   io.Writer
	jobs chan []byte
	done chan written

	lock     chan struct{} // has a value while somebody writes
	left     time.Duration // of lastWrites; guarded by lock
	stopping chan struct{} // closed by End
	dead     chan struct{} // closed when nothing is left
	end      sync.Once
}

type written struct {
	n   int
	err error
}

// NewWriter returns a Writer to w. Close ends its goroutine.
func NewWriter(w io.Writer) *Writer {
	o := &Writer{to: w, jobs: make(chan []byte), done: make(chan written, 1), lock: make(chan struct{}, 1), left: lastWrites,
		stopping: make(chan struct{}), dead: make(chan struct{})}
	go func() {
		for b := range o.jobs {
			n, err := o.to.Write(b)
			o.done <- written{n, err}
		}
	}()
	return o
}

// Write implements io.Writer. Of nothing it writes nothing, which could block, too.
func (o *Writer) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	select {
	case o.lock <- struct{}{}:
	case <-o.dead:
		return 0, ErrUnread
	}
	o.jobs <- bytes.Clone(b) // whose writer may change it when this returns early
	select {
	case w := <-o.done:
		<-o.lock
		return w.n, w.err
	case <-o.stopping:
	}
	began, up := time.Now(), time.NewTimer(o.left)
	defer up.Stop()
	select {
	case w := <-o.done:
		o.left -= time.Since(began)
		<-o.lock
		return w.n, w.err
	case <-up.C:
		close(o.dead) // the lock stays taken
		return 0, ErrUnread
	}
}

// End bounds how long writes wait from now on.
func (o *Writer) End() { o.end.Do(func() { close(o.stopping) }) }

// Close ends the goroutine, unless a write holds it up. Nothing may be written any more.
func (o *Writer) Close() {
	select {
	case <-o.dead:
	default:
		close(o.jobs)
	}
}

// Fd returns the descriptor of a file, by which package terminal knows terminals. That of others is no descriptor.
func (o *Writer) Fd() uintptr {
	if f, ok := o.to.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}
