//go:build linux

package backendtest

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// seat is the user of a program's terminal.
type seat struct {
	*testing.T
	keys    io.WriteCloser
	resized chan backends.Size
	screen  lockedBuffer
	end     chan backends.Result
}

// sit has sh, which does not claim a terminal by itself as bash does, run a script at a terminal of 100 columns and 30
// rows.
func sit(t *testing.T, b *bench, script string) *seat {
	t.Helper()
	b.parallel(t)
	typed, keys := io.Pipe()
	s := &seat{T: t, keys: keys, resized: make(chan backends.Size), end: make(chan backends.Result, 1)}
	sb := b.start(t, b.spec("shell"))
	go func() {
		r, err := sb.Exec(t.Context(), backends.Command{Args: []string{"sh", "-c", script}}, backends.Streams{
			Stdin: typed, Stdout: &s.screen, Stderr: complaining{t},
			Terminal: &backends.Terminal{Size: backends.Size{Columns: 100, Rows: 30}, Resized: s.resized}})
		if err != nil {
			t.Error(err)
		}
		s.end <- r
	}()
	t.Cleanup(func() { keys.Close() })
	return s
}

// complaining fails the test at any write.
type complaining struct{ *testing.T }

func (c complaining) Write(b []byte) (int, error) {
	c.Errorf("%q came by stderr", b)
	return len(b), nil
}

func (s *seat) sees(text string) {
	s.Helper()
	hosttest.Until(s, fmt.Sprintf("the terminal shows %q", text), func() bool {
		return strings.Contains(s.screen.String(), text)
	})
}

func (s *seat) types(text string) { io.WriteString(s.keys, text) }

// ends waits for the program to exit with a code.
func (s *seat) ends(code int) {
	s.Helper()
	if r := <-s.end; r.ExitCode != code {
		s.Errorf("ended %s, %d, want %d, after %q", r.Ended, r.ExitCode, code, s.screen.String())
	}
}

func testTerminal(t *testing.T, b *bench) {
	t.Run("is all of them", func(t *testing.T) {
		s := sit(t, b, "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo out && echo err >&2 && echo own >/dev/tty && stty size; exit 9")
		s.ends(9)
		if got := s.screen.String(); got != "out\r\nerr\r\nown\r\n30 100\r\n" {
			t.Errorf("shown %q", got)
		}
	})
	t.Run("keys", func(t *testing.T) {
		s := sit(t, b, "trap 'echo interrupted' INT; echo ready; cat; echo ended; read line; echo \"got $line\"")
		s.sees("ready\r\n")
		s.types("echoed\n")
		s.sees("echoed\r\nechoed\r\n") // by the terminal, and by cat
		s.types("\x03")
		s.sees("^C")
		s.sees("interrupted\r\nended\r\n")
		s.types("last\x7fer\n") // a line that is corrected
		s.sees("got laser\r\n")
		s.ends(0)
	})
	t.Run("end of input", func(t *testing.T) {
		s := sit(t, b, "cat; echo over")
		s.types("\x04")
		s.sees("over\r\n")
		s.ends(0)
	})
	t.Run("jobs", func(t *testing.T) {
		s := sit(t, b, "set -m; echo ready; cat; jobs; fg >/dev/null; echo over")
		s.sees("ready\r\n")
		s.types("x\n")
		s.sees("x\r\nx\r\n")
		s.types("\x1a") // which stops cat
		s.sees("Stopped")
		s.types("again\n")
		s.sees("again\r\nagain\r\n")
		s.types("\x04")
		s.sees("over\r\n")
		s.ends(0)
	})
	t.Run("resized", func(t *testing.T) {
		// A shell may lose a signal that comes while it runs the trap of the one before.
		s := sit(t, b, "n=0; trap 'stty size; n=$((n + 1))' WINCH; echo ready; while [ $n -lt 1 ]; do sleep 0.05; done; echo once; while [ $n -lt 2 ]; do sleep 0.05; done; echo over")
		s.sees("ready\r\n")
		s.resized <- backends.Size{Columns: 81, Rows: 25}
		s.sees("25 81\r\nonce\r\n")
		s.resized <- backends.Size{Columns: 132, Rows: 50}
		s.sees("50 132\r\n")
		s.ends(0)
	})
	t.Run("all of it arrives", func(t *testing.T) {
		s := sit(t, b, "head -c 3000000 /dev/zero | tr '\\0' x; exit 3")
		s.ends(3)
		if got := s.screen.String(); strings.Trim(got, "x") != "" || len(got) != 3_000_000 {
			t.Errorf("%d bytes arrived", len(got))
		}
	})
	t.Run("what outlives the program", func(t *testing.T) {
		s := sit(t, b, "trap '' HUP; (trap '' HUP; sleep 1000) & echo over; exit 4")
		s.ends(4)
	})
}
