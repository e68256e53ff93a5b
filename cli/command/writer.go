package command

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"time"
)

// ErrUnread is the error of writes that were abandoned when the command ended.
var ErrUnread = errors.New("the reader of the output did not read, and the command ended without it")

// writeLimit bounds the time that all writes together may block once the command is ending.
const writeLimit = time.Second

// Writer is standard output or standard error. A write waits for its reader, as in other programs; once the command is
// ending, because of a signal, the end of its input or its time limit, writes wait for writeLimit at most, and later
// ones fail. A goroutine performs each write, because a write to a pipe or a terminal that nobody reads can't be
// interrupted.
type Writer struct {
	to   io.Writer
	jobs chan []byte
	done chan writeResult

	lock     chan struct{} // holds a value while a write is under way
	left     time.Duration // rest of writeLimit; guarded by lock
	stopping chan struct{} // closed by End
	dead     chan struct{} // closed when no time is left
	end      sync.Once
}

type writeResult struct {
	n   int
	err error
}

// NewWriter returns a Writer to w. Close ends its goroutine.
func NewWriter(w io.Writer) *Writer {
	o := &Writer{to: w, jobs: make(chan []byte), done: make(chan writeResult, 1), lock: make(chan struct{}, 1), left: writeLimit,
		stopping: make(chan struct{}), dead: make(chan struct{})}
	go func() {
		for b := range o.jobs {
			n, err := o.to.Write(b)
			o.done <- writeResult{n, err}
		}
	}()
	return o
}

// Write implements [io.Writer]. An empty write returns at once: it could block, too.
func (o *Writer) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	select {
	case o.lock <- struct{}{}:
	case <-o.dead:
		return 0, ErrUnread
	}
	o.jobs <- bytes.Clone(b) // the caller may change b after an early return
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

// LimitWrites bounds the time of writes from now on.
func (o *Writer) LimitWrites() { o.end.Do(func() { close(o.stopping) }) }

// Close stops the goroutine, unless a write blocks it. Nothing may be written afterwards.
func (o *Writer) Close() {
	select {
	case <-o.dead:
	default:
		close(o.jobs)
	}
}

// Fd returns the descriptor of a file, from which package terminal recognises terminals, or an invalid one.
func (o *Writer) Fd() uintptr {
	if f, ok := o.to.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}
