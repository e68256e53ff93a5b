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

	glance time.Duration // glance, except in tests
	early  []byte        // input for the script, typed before a question could be read
	shared bool          // the script reads from it, too
}

// glance is the time in which nobody can have read a new question: input until then was meant for
// something else.
const glance = 500 * time.Millisecond

// resetTerminal ends whatever state a program may have left the terminal in, or try to hide a question
// with: an unfinished escape sequence, colours, margins, another character set, lines that don't wrap.
// It clears the rest of the screen, so that nothing which stands there already reads on after our words: a
// name would seem to have another end.
const resetTerminal = "\x18\x1b\\\x1b[!p\x1b[0m\x1b[?7h\n\x1b[J"

// again is the question after an answer that is neither yes nor no.
const again = "y or n? [y/N] "

// newConsole returns the console of tty, whose reads must end at its deadline. front reports whether this process is in
// the terminal's foreground process group.
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

// take makes the caller the only reader of the terminal, until give. It reports false, and takes nothing, if ctx ends
// first.
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

// give ends take, and clears the deadlines.
func (t *Console) give() {
	_ = t.tty.SetDeadline(time.Time{})
	<-t.reading
}

// put writes text until ctx ends, and reports whether all of it was written.
func (t *Console) put(ctx context.Context, text string) bool {
	defer t.until(ctx)()
	_, err := io.WriteString(t.tty, text)
	return err == nil
}

// until makes reads and writes end with ctx, until the returned function is called.
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

// keep appends input to early, if the script reads from the terminal, and drops it if early would exceed maxEarly.
func (t *Console) keep(b []byte) {
	if t.shared && len(t.early)+len(b) <= maxEarly {
		t.early = append(t.early, b...)
	}
}

// line reads a line, without its line end, and keeps the input after it for the script. From maxEarly bytes on, it
// returns the text so far.
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

// holding writes to w while no question stands.
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
	if f, ok := in.(*os.File); t == nil || !ok || !controlling(f) {
		return in
	}
	t.shared = true
	return lending{t}
}

// lending reads from the terminal while no question stands.
type lending struct{ t *Console }

// Read implements io.Reader. A deadline of take is not passed on: the read goes on after the question.
func (l lending) Read(b []byte) (int, error) {
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
