// Package command has what the commands of the command line share: their streams, their flags, and the signals that end
// them.
package command

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// Streams are the standard streams of one invocation.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer

	own []*Writer
}

// NewStreams returns the streams of an invocation, of which none holds up its end.
func NewStreams(in io.Reader, out, err io.Writer) *Streams {
	own := []*Writer{NewWriter(out), NewWriter(err)}
	return &Streams{In: in, Out: own[0], Err: own[1], own: own}
}

// Context returns a context by which a signal that the functions of this package attend to calls End.
func (s *Streams) Context() context.Context { return withWrites(context.Background(), s.End) }

// End bounds how long writes wait for their readers from now on: the command is to end.
func (s *Streams) End() {
	for _, w := range s.own {
		w.End()
	}
}

// Close ends what NewStreams began. Nothing may be written any more.
func (s *Streams) Close() {
	for _, w := range s.own {
		w.Close()
	}
}

// Say writes one message to stderr. It may quote what others wrote, so it shows escapes instead
// of sending them to the terminal.
func (s *Streams) Say(format string, args ...any) {
	lines := strings.Split(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n")
	for i, l := range lines {
		lines[i] = terminal.Visible(l)
	}
	fmt.Fprintf(s.Err, "sandboxmcp: %s\n", strings.Join(lines, "\n    "))
}

// Exit writes an error and its hint to stderr and returns the exit code; nil is 0 and writes nothing.
func (s *Streams) Exit(err error) int {
	if err == nil {
		return 0
	}
	f := exit.Of(err)
	if f.Text != "" {
		s.Say("%s", f.Text)
	}
	if f.Hint != "" {
		s.Say("hint: %s", f.Hint)
	}
	return f.Code
}

// Print writes v as JSON where --json asks for it, or else what text writes.
func (s *Streams) Print(c *cli.Context, v any, text func(io.Writer) error) error {
	if c.Bool("json") {
		return terminal.WriteJSON(s.Out, v)
	}
	return text(s.Out)
}

// Printf is Print with a formatted text.
func (s *Streams) Printf(c *cli.Context, v any, format string, args ...any) error {
	return s.Print(c, v, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format, args...)
		return err
	})
}

// Table writes a list as JSON where --json asks for it, or else as a table with a row for each element. empty is
// printed instead of one without rows.
func Table[T any](s *Streams, c *cli.Context, list []T, empty string, columns []terminal.Column, row func(T) []string) error {
	return s.Print(c, list, func(w io.Writer) error {
		t := terminal.NewTable(w, columns...)
		t.Empty = empty
		for _, one := range list {
			t.Row(row(one)...)
		}
		return t.Close()
	})
}

// Open opens the file that a command line names; "-" is standard input.
func (s *Streams) Open(file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(s.In), nil
	}
	return statefile.Open(file)
}

// WriteOut lets f write to the new file at path, or to standard output for "" and "-". What was begun and
// could not be finished is removed: half an export would be taken for a whole one. Nobody else may read it:
// others' names and hosts are in it.
func (s *Streams) WriteOut(path string, f func(io.Writer) error) error {
	return s.WriteOutAs(path, 0o600, f)
}

// WriteOutAs is WriteOut with the mode of the file.
func (s *Streams) WriteOutAs(path string, mode fs.FileMode, f func(io.Writer) error) error {
	if path == "" || path == "-" {
		w := bufio.NewWriterSize(s.Out, 1<<16)
		return cmp.Or(f(w), w.Flush())
	}
	dir, name, err := hostfs.Parent(path)
	if err != nil {
		return NotThere("give the name of a new file", "", err)
	}
	defer dir.Close()
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return exit.Fail("give the name of a new file", "open %s: %v", terminal.Visible(path), signer.Bare(err))
	}
	w := bufio.NewWriterSize(file, 1<<16)
	err = f(w)
	if err := errors.Join(err, w.Flush(), file.Close()); err != nil {
		return errors.Join(err, dir.Remove(name))
	}
	return nil
}

// NotThere returns the error of package hostfs for a path that was typed, with the flag before it: hint says what to
// do, unless a link is in the way.
func NotThere(hint, flag string, err error) error {
	text := strings.TrimLeft(flag+": "+err.Error(), ": ")
	if link, is := errors.AsType[*hostfs.Link](err); is {
		return exit.Usage("if it is meant, name what it leads to: "+strings.TrimLeft(flag+" ", " ")+terminal.Visible(link.To), "%s", text)
	}
	return exit.Fail(hint, "%s", text)
}

// Output writes to where our own output goes, and keeps its first error: ErrNoReader when nobody reads it any more, as
// after head(1). Other programs die of SIGPIPE then. It may be used concurrently.
type Output struct {
	W      io.Writer
	Broken context.CancelCauseFunc // called with ErrNoReader; may be nil
	mu     sync.Mutex
	blocks bool // a write is under way
	inLine bool
	err    error
}

func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	o.blocks = true
	o.mu.Unlock()
	n, err := o.W.Write(b)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.blocks = false
	if text := bytes.TrimSuffix(b, []byte("\x1b[0m")); len(text) > 0 { // which a filter ends with
		o.inLine = text[len(text)-1] != '\n'
	}
	failed := err
	if errors.Is(err, syscall.EPIPE) {
		failed = ErrNoReader
		if o.Broken != nil {
			o.Broken(ErrNoReader)
		}
	}
	o.err = cmp.Or(o.err, failed)
	return n, err
}

// Err returns the error of the first write that failed, or nil.
func (o *Output) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Unread reports whether a write waits for the reader, or did until the end of the command.
func (o *Output) Unread() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.blocks || errors.Is(o.err, ErrUnread)
}

// InLine reports whether the last byte that was written ended no line.
func (o *Output) InLine() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inLine
}
