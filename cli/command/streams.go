// Package command holds the parts that all commands share: streams, flags, and the signals that end them.
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

// NewStreams returns the streams of an invocation. A write that blocks can't delay its end.
func NewStreams(in io.Reader, out, err io.Writer) *Streams {
	own := []*Writer{NewWriter(out), NewWriter(err)}
	return &Streams{In: in, Out: own[0], Err: own[1], own: own}
}

// Context returns a context in which a signal, through the functions of this package, calls LimitWrites.
func (s *Streams) Context() context.Context {
	return withWriteLimit(context.Background(), s.LimitWrites)
}

// LimitWrites bounds the time of writes from now on, since the command is ending.
func (s *Streams) LimitWrites() {
	for _, w := range s.own {
		w.LimitWrites()
	}
}

// Close stops the goroutines of NewStreams. Nothing may be written afterwards.
func (s *Streams) Close() {
	for _, w := range s.own {
		w.Close()
	}
}

// Messagef writes one message to stderr. Its text may quote untrusted input, so control characters are escaped.
func (s *Streams) Messagef(format string, args ...any) {
	lines := strings.Split(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n")
	for i, l := range lines {
		lines[i] = terminal.Visible(l)
	}
	fmt.Fprintf(s.Err, "sandboxmcp: %s\n", strings.Join(lines, "\n    "))
}

// Exit writes an error and its hint to stderr and returns the exit code. For nil it writes nothing and returns 0.
func (s *Streams) Exit(err error) int {
	if err == nil {
		return 0
	}
	f := exit.FromError(err)
	if f.Text != "" {
		s.Messagef("%s", f.Text)
	}
	if f.Hint != "" {
		s.Messagef("hint: %s", f.Hint)
	}
	return f.Code
}

// Print writes v as JSON if --json was typed, or else calls text.
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

// Table writes a list as JSON if --json was typed, or else as a table with a row for each element. For an empty list it
// prints empty.
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

// OpenInput opens the file that a command line names; "-" is standard input.
func (s *Streams) OpenInput(file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(s.In), nil
	}
	return statefile.Open(file)
}

// WriteOut calls f with a new file at path, or with standard output for "" and "-". If f fails, the file is removed:
// half an export could be taken for a whole one. Only its owner can read it, since it has others' names and hosts.
func (s *Streams) WriteOut(path string, f func(io.Writer) error) error {
	return s.WriteOutAs(path, 0o600, f)
}

// WriteOutAs is WriteOut with a mode for the file.
func (s *Streams) WriteOutAs(path string, mode fs.FileMode, f func(io.Writer) error) error {
	if path == "" || path == "-" {
		w := bufio.NewWriterSize(s.Out, 1<<16)
		return cmp.Or(f(w), w.Flush())
	}
	dir, name, err := hostfs.OpenParent(path)
	if err != nil {
		return PathError("give the name of a new file", "", err)
	}
	defer dir.Close()
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return exit.Fail("give the name of a new file", "open %s: %v", terminal.Visible(path), signer.WithoutPaths(err))
	}
	w := bufio.NewWriterSize(file, 1<<16)
	err = f(w)
	if err := errors.Join(err, w.Flush(), file.Close()); err != nil {
		return errors.Join(err, dir.Remove(name))
	}
	return nil
}

// PathError returns an error of package hostfs with the flag before it. hint says what to do, unless the cause is a link
// in the path.
func PathError(hint, flag string, err error) error {
	text := strings.TrimLeft(flag+": "+err.Error(), ": ")
	if link, is := errors.AsType[*hostfs.LinkError](err); is {
		return exit.Usage("to use it, name its target: "+strings.TrimLeft(flag+" ", " ")+terminal.Visible(link.To), "%s", text)
	}
	return exit.Fail(hint, "%s", text)
}

// Output writes to standard output or standard error and keeps its first error: ErrNoReader if the reader has gone, as
// after head(1), where other programs die of SIGPIPE. It is safe for concurrent use.
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
	if text := bytes.TrimSuffix(b, []byte("\x1b[0m")); len(text) > 0 { // a filter ends with this sequence
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

// IsUnread reports whether a write is waiting for the reader, or was when the command ended.
func (o *Output) IsUnread() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.blocks || errors.Is(o.err, ErrUnread)
}

// MidLine reports whether the last byte that was written did not end a line.
func (o *Output) MidLine() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inLine
}
