// Package console asks the person at the terminal of this process, and reads the code that they type into a session.
package console

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"
)

// Console is the terminal that a person sits at, where questions are asked while a script runs. It
// keeps the two apart: the script's output waits while a question stands, so that nothing can be
// written over it, and what is typed goes to either the one or the other. nil is no terminal.
type Console struct {
	tty   *os.File    // whose Read ends at its deadline
	front func() bool // whether we may read from it: a job in the background is stopped if it tries

	// Each has room for one.
	asking  chan struct{} // whoever asks
	screen  chan struct{} // whoever writes
	reading chan struct{} // whoever reads, and has early

	glance time.Duration // how long nobody can have read a question
	early  []byte        // what was typed before a question could be read
	shared bool          // the script reads from it, too
}

// glance is how long nobody can have read a question. What is typed until then was meant for
// something else.
const glance = 500 * time.Millisecond

// resetTerminal ends whatever state a program may have left the terminal in, or try to hide a question
// with: an unfinished escape sequence, colours, margins, another character set, lines that don't wrap.
// It clears the rest of the screen, so that nothing which stands there already reads on after our words: a
// name would seem to have another end.
const resetTerminal = "\x18\x1b\\\x1b[!p\x1b[0m\x1b[?7h\n\x1b[J"

// again is asked after words that are no answer.
const again = "y or n? [y/N] "

func newConsole(tty *os.File, front func() bool) *Console {
	return &Console{tty: tty, front: front, glance: glance,
		asking: make(chan struct{}, 1), screen: make(chan struct{}, 1), reading: make(chan struct{}, 1)}
}

// Close closes the terminal. What the script reads from it ends.
func (t *Console) Close() {
	if t != nil {
		t.tty.Close()
	}
}

// take makes this process the reader of the terminal, until give.
func (t *Console) take(ctx context.Context) bool {
	_ = t.tty.SetReadDeadline(time.Unix(1, 0)) // whoever reads for the script makes room
	select {
	case t.reading <- struct{}{}:
		return true
	case <-ctx.Done():
		_ = t.tty.SetReadDeadline(time.Time{})
		return false
	}
}

func (t *Console) give() {
	_ = t.tty.SetDeadline(time.Time{})
	<-t.reading
}

func (t *Console) put(ctx context.Context, text string) bool {
	defer t.until(ctx)()
	_, err := io.WriteString(t.tty, text)
	return err == nil
}

// until ends reads and writes with ctx, until the returned function is called.
func (t *Console) until(ctx context.Context) func() bool {
	_ = t.tty.SetDeadline(time.Time{})
	return context.AfterFunc(ctx, func() { _ = t.tty.SetDeadline(time.Unix(1, 0)) })
}

// maxEarly bounds the text, typed ahead, that is kept for the script.
const maxEarly = 64 << 10

// collect takes the text that was typed before the question could be read, and reports whether there was any.
func (t *Console) collect(ctx context.Context) (typed bool) {
	defer t.until(ctx)()
	_ = t.tty.SetReadDeadline(time.Now().Add(t.glance))
	b := make([]byte, 4096)
	for ctx.Err() == nil {
		n, err := t.tty.Read(b)
		t.keep(b[:n])
		typed = typed || n > 0
		if err != nil && !errors.Is(err, io.EOF) {
			return typed
		}
	}
	return typed
}

func (t *Console) keep(b []byte) {
	if t.shared && len(t.early)+len(b) <= maxEarly {
		t.early = append(t.early, b...)
	}
}

// line reads a line.
func (t *Console) line(ctx context.Context) (string, error) {
	defer t.until(ctx)()
	var all []byte
	for b := make([]byte, 4096); len(all) < maxEarly; {
		n, err := t.tty.Read(b)
		all = append(all, b[:n]...)
		if text, rest, ok := strings.Cut(string(all), "\n"); ok {
			t.keep([]byte(rest))
			return text, nil
		}
		if err != nil {
			return string(all), err
		}
	}
	return string(all), nil
}

// holds returns a writer of the script's output, which waits while a question stands.
func (t *Console) holds(w io.Writer) io.Writer {
	if t == nil {
		return w
	}
	return holding{t, w}
}

type holding struct {
	t *Console
	w io.Writer
}

func (h holding) Write(b []byte) (int, error) {
	h.t.screen <- struct{}{}
	defer func() { <-h.t.screen }()
	return h.w.Write(b)
}

// lends returns the script's input: if that is the terminal, what is typed while no question stands.
func (t *Console) lends(in io.Reader) io.Reader {
	f, ok := in.(*os.File)
	if t == nil || !ok || !controlling(f) {
		return in
	}
	t.shared = true
	return lending{t}
}

type lending struct{ t *Console }

func (l lending) Read(b []byte) (int, error) {
	for {
		n, err := l.t.read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
}

func (t *Console) read(b []byte) (int, error) {
	t.reading <- struct{}{}
	defer func() { <-t.reading }()
	if n := copy(b, t.early); n > 0 {
		t.early = t.early[n:]
		return n, nil
	}
	return t.tty.Read(b)
}
