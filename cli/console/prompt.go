package console

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// Prompt reads pieces of code from a terminal, with line editing and a history. The terminal is in raw mode only during
// Read, so that output and Ctrl-C work as usual while code runs.
type Prompt struct {
	console  *Console
	past     *history
	language string
	keys     *keyFilter
	editor   *term.Terminal
}

// prompts are the prompts for the first line of a piece of code, and for its other lines, by language.
var prompts = map[string][2]string{"python": {">>> ", "... "}, "node": {"> ", "... "}, "shell": {"$ ", "> "}, "r": {"> ", "+ "}}

// NewPrompt returns a prompt for code in a language. A tab inserts four blanks.
func NewPrompt(c *Console, past *history, language string) *Prompt {
	p := &Prompt{console: c, past: past, language: language, keys: &keyFilter{tty: c.tty}}
	p.editor = term.NewTerminal(p.keys, "")
	p.editor.History = past
	p.editor.AutoCompleteCallback = func(line string, at int, key rune) (string, int, bool) {
		if key != '\t' || len(line)+4 > maxTyped {
			return "", 0, false
		}
		return line[:at] + "    " + line[at:], at + 4, true
	}
	return p
}

// Read returns the next piece of code, io.EOF for Ctrl-D, or an error when ctx ends.
func (p *Prompt) Read(ctx context.Context) (string, error) {
	leave, err := p.enterRawMode()
	if err != nil {
		return "", err
	}
	defer leave()
	defer p.console.bindDeadlines(ctx)()
	changes, stop := WatchSize()
	over := make(chan struct{})
	sized := make(chan struct{})
	go func() {
		defer close(sized)
		for {
			select {
			case <-changes:
				p.resize()
			case <-over:
				return
			}
		}
	}()
	defer func() { stop(); close(over); <-sized }()
	p.resize()
	return p.readPiece()
}

// readPiece reads lines until they are a complete piece of code.
func (p *Prompt) readPiece() (string, error) {
	marks, ok := prompts[p.language]
	if !ok {
		marks = [2]string{"> ", "... "}
	}
	var lines []string
	for {
		p.editor.SetPrompt(marks[min(len(lines), 1)])
		line, err := p.editor.ReadLine()
		pasted := errors.Is(err, term.ErrPasteIndicator)
		if err != nil && !pasted {
			return "", err
		}
		if p.keys.interrupted.Swap(false) {
			lines = nil
			continue
		}
		if len(lines) == 0 {
			p.past.startPiece(line)
		}
		p.past.addLine(line)
		lines = append(lines, line)
		// An empty line within pasted text belongs to it.
		if pasted && len(lines) > 1 && strings.TrimSpace(line) == "" || Incomplete(p.language, lines) {
			continue
		}
		return strings.Join(lines, "\n"), nil
	}
}

// enterRawMode puts the terminal into raw mode, until leave.
func (p *Prompt) enterRawMode() (leave func(), err error) {
	var old *term.State
	if err := p.withDescriptor(func(fd int) error {
		var err error
		old, err = term.MakeRaw(fd)
		return err
	}); err != nil {
		return nil, err
	}
	p.editor.SetBracketedPasteMode(true)
	return func() {
		_ = p.console.tty.SetDeadline(time.Time{})
		p.editor.SetBracketedPasteMode(false)
		_ = p.withDescriptor(func(fd int) error { return term.Restore(fd, old) })
	}, nil
}

// withDescriptor calls f with the terminal's descriptor. Fd would make the file blocking, and its reads uninterruptible.
func (p *Prompt) withDescriptor(f func(fd int) error) error {
	raw, err := p.console.tty.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

// resize passes the terminal's size, if known, to the editor.
func (p *Prompt) resize() {
	_ = p.withDescriptor(func(fd int) error {
		columns, rows, err := term.GetSize(fd)
		if err == nil && columns > 0 && rows > 0 {
			err = p.editor.SetSize(columns, rows)
		}
		return err
	})
}

// keyFilter is the editor's input and output. It replaces Ctrl-C, which the editor takes for the end of input, by keys that
// clear the line.
type keyFilter struct {
	tty         *os.File
	held        []byte // read, but not yet returned
	interrupted atomic.Bool
}

// ctrlC is the byte that a terminal in raw mode sends for Ctrl-C: ETX.
const ctrlC = 3

// clearLineKeys moves to the end of the line, clears it, and ends it: Ctrl-E, Ctrl-U, Enter.
const clearLineKeys = "\x05\x15\r"

// Read returns the bytes before a Ctrl-C first, so that the lines before it stay.
func (k *keyFilter) Read(b []byte) (int, error) {
	if len(k.held) == 0 {
		room := make([]byte, len(b))
		n, err := k.tty.Read(room)
		if n == 0 {
			return 0, err
		}
		k.held = room[:n]
	}
	if k.held[0] == ctrlC && len(b) >= len(clearLineKeys) {
		k.held = k.held[1:]
		k.interrupted.Store(true)
		return copy(b, clearLineKeys), nil
	}
	part := k.held
	if i := bytes.IndexByte(part[1:], ctrlC); i >= 0 {
		part = part[:i+1]
	}
	n := copy(b, part)
	k.held = k.held[n:]
	return n, nil
}

// Write implements io.Writer.
func (k *keyFilter) Write(b []byte) (int, error) { return k.tty.Write(b) }
