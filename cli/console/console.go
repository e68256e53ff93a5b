// Package console asks questions on the controlling terminal, and reads code that a person types into a session.
package console

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"
)

// Console is the controlling terminal, on which questions are asked while a script runs. It keeps both apart: the
// script's output waits while a question is open, so that nothing overwrites it, and input goes to either the question
// or the script. A nil Console has no terminal.
type Console struct {
	tty   *os.File    // reads respect deadlines
	front func() bool // reports whether we may read: the kernel stops a background job that tries

	// Semaphores with room for one.
	asking  chan struct{} // held by the question
	screen  chan struct{} // held by the writer
	reading chan struct{} // held by the reader, guards early

	glance time.Duration // the constant, except in tests
	early  []byte        // input for the script that was typed before a question was readable
	shared bool          // the script reads from the terminal, too
	drawn  *drawing      // nil unless a program has the terminal for itself
}

// readingTime is too short to read a new question: input within it was typed for the script.
const readingTime = 500 * time.Millisecond

// resetTerminal undoes any state in which a program may have left the terminal, by accident or to hide a question: an
// unfinished escape sequence, colours, margins, another character set, no line wrap. It clears the rest of the screen,
// so that no text there continues ours: a name would seem to end differently.
const resetTerminal = "\x18\x1b\\\x1b[!p\x1b[0m\x1b[?7h\n\x1b[J"

// retryPrompt is the prompt after an answer that is neither yes nor no.
const retryPrompt = "y or n? [y/N] "

// newConsole returns the console of tty, whose reads must respect deadlines. front reports whether this process is in
// the terminal's foreground process group.
func newConsole(tty *os.File, front func() bool) *Console {
	return &Console{tty: tty, front: front, glance: readingTime,
		asking: make(chan struct{}, 1), screen: make(chan struct{}, 1), reading: make(chan struct{}, 1)}
}

// Close closes the terminal, and with it the script's input from it.
func (t *Console) Close() {
	if t != nil {
		t.tty.Close()
	}
}

// acquire makes the caller the only reader of the terminal until release. It returns false if ctx ends first.
func (t *Console) acquire(ctx context.Context) bool {
	_ = t.tty.SetReadDeadline(time.Unix(1, 0)) // interrupts a read for the script
	select {
	case t.reading <- struct{}{}:
		return true
	case <-ctx.Done():
		_ = t.tty.SetReadDeadline(time.Time{})
		return false
	}
}

// release undoes acquire and clears the deadlines.
func (t *Console) release() {
	_ = t.tty.SetDeadline(time.Time{})
	<-t.reading
}

// writeText writes text and reports whether all of it was written before ctx ended.
func (t *Console) writeText(ctx context.Context, text string) bool {
	defer t.bindDeadlines(ctx)()
	_, err := io.WriteString(t.tty, text)
	return err == nil
}

// bindDeadlines ends reads and writes with ctx, until the returned function is called.
func (t *Console) bindDeadlines(ctx context.Context) func() bool {
	_ = t.tty.SetDeadline(time.Time{})
	return context.AfterFunc(ctx, func() { _ = t.tty.SetDeadline(time.Unix(1, 0)) })
}

// maxEarly bounds the input that is buffered for the script.
const maxEarly = 64 << 10

// collectEarly stores the input that was typed before the question was readable, and reports whether there was any.
func (t *Console) collectEarly(ctx context.Context) (typed bool) {
	defer t.bindDeadlines(ctx)()
	_ = t.tty.SetReadDeadline(time.Now().Add(t.glance))
	b := make([]byte, 4096)
	for ctx.Err() == nil {
		n, err := t.tty.Read(b)
		t.bufferEarly(b[:n])
		typed = typed || n > 0
		if err != nil && !errors.Is(err, io.EOF) {
			return typed
		}
	}
	return typed
}

// bufferEarly appends input to early if the script reads from the terminal. Input beyond maxEarly is dropped.
func (t *Console) bufferEarly(b []byte) {
	if t.shared && len(t.early)+len(b) <= maxEarly {
		t.early = append(t.early, b...)
	}
}

// readLine reads a line without its line end and keeps the input after it for the script. It cuts a line at maxEarly bytes.
func (t *Console) readLine(ctx context.Context) (string, error) {
	defer t.bindDeadlines(ctx)()
	var all []byte
	for b := make([]byte, 4096); len(all) < maxEarly; {
		n, err := t.tty.Read(b)
		all = append(all, b[:n]...)
		if text, rest, ok := strings.Cut(string(all), "\n"); ok {
			t.bufferEarly([]byte(rest))
			return text, nil
		}
		if err != nil {
			return string(all), err
		}
	}
	return string(all), nil
}

// pausingWriter returns a writer for the script's output that blocks while a question is open.
func (t *Console) pausingWriter(w io.Writer) io.Writer {
	if t == nil {
		return w
	}
	return pausedWriter{t, w}
}

// pausedWriter writes to w while no question is open.
type pausedWriter struct {
	t *Console
	w io.Writer
}

func (h pausedWriter) Write(b []byte) (int, error) {
	h.t.screen <- struct{}{}
	defer func() { <-h.t.screen }()
	return h.w.Write(b)
}

// pausingReader returns the script's input. If it is the terminal, reads block while a question is open.
func (t *Console) pausingReader(in io.Reader) io.Reader {
	if f, ok := in.(*os.File); t == nil || !ok || !isControlling(f) {
		return in
	}
	t.shared = true
	return pausedReader{t}
}

// pausedReader reads from the terminal while no question is open.
type pausedReader struct{ t *Console }

// Read implements [io.Reader]. It hides the deadline that acquire sets: the read continues after the question.
func (l pausedReader) Read(b []byte) (int, error) {
	for {
		if n, err := l.t.read(b); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
}

// read returns early input first, then reads once from the terminal.
func (t *Console) read(b []byte) (int, error) {
	t.reading <- struct{}{}
	defer func() { <-t.reading }()
	if n := copy(b, t.early); n > 0 {
		t.early = t.early[n:]
		return n, nil
	}
	return t.tty.Read(b)
}
