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

// terminalUser is the user of a program's terminal.
type terminalUser struct {
	*testing.T
	keys    io.WriteCloser
	resized chan backends.Size
	screen  lockedBuffer
	end     chan backends.Result
}

// startTerminal runs a script with sh, which unlike bash does not claim the terminal, on a terminal of 100 columns
// and 30 rows.
func startTerminal(t *testing.T, b *bench, script string) *terminalUser {
	t.Helper()
	b.parallel(t)
	typed, keys := io.Pipe()
	s := &terminalUser{T: t, keys: keys, resized: make(chan backends.Size), end: make(chan backends.Result, 1)}
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

func (s *terminalUser) waitForText(text string) {
	s.Helper()
	hosttest.Until(s, fmt.Sprintf("the terminal shows %q", text), func() bool {
		return strings.Contains(s.screen.String(), text)
	})
}

func (s *terminalUser) typeText(text string) { io.WriteString(s.keys, text) }

// waitForExit waits for the program to exit with a code.
func (s *terminalUser) waitForExit(code int) {
	s.Helper()
	if r := <-s.end; r.ExitCode != code {
		s.Errorf("ended %s, %d, want %d, after %q", r.Ended, r.ExitCode, code, s.screen.String())
	}
}

func testTerminal(t *testing.T, b *bench) {
	t.Run("is all of them", func(t *testing.T) {
		s := startTerminal(t, b, "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo out && echo err >&2 && echo own >/dev/tty && stty size; exit 9")
		s.waitForExit(9)
		if got := s.screen.String(); got != "out\r\nerr\r\nown\r\n30 100\r\n" {
			t.Errorf("shown %q", got)
		}
	})
	t.Run("keys", func(t *testing.T) {
		s := startTerminal(t, b, "trap 'echo interrupted' INT; echo ready; cat; echo ended; read line; echo \"got $line\"")
		s.waitForText("ready\r\n")
		s.typeText("echoed\n")
		s.waitForText("echoed\r\nechoed\r\n") // echoed by the terminal and by cat
		s.typeText("\x03")
		s.waitForText("^C")
		s.waitForText("interrupted\r\nended\r\n")
		s.typeText("last\x7fer\n") // a corrected line
		s.waitForText("got laser\r\n")
		s.waitForExit(0)
	})
	t.Run("end of input", func(t *testing.T) {
		s := startTerminal(t, b, "cat; echo over")
		s.typeText("\x04")
		s.waitForText("over\r\n")
		s.waitForExit(0)
	})
	t.Run("jobs", func(t *testing.T) {
		s := startTerminal(t, b, "set -m; echo ready; cat; jobs; fg >/dev/null; echo over")
		s.waitForText("ready\r\n")
		s.typeText("x\n")
		s.waitForText("x\r\nx\r\n")
		s.typeText("\x1a") // stops cat
		s.waitForText("Stopped")
		s.typeText("again\n")
		s.waitForText("again\r\nagain\r\n")
		s.typeText("\x04")
		s.waitForText("over\r\n")
		s.waitForExit(0)
	})
	t.Run("resized", func(t *testing.T) {
		// A shell may lose a signal that comes while it runs the previous one's trap.
		s := startTerminal(t, b, "n=0; trap 'stty size; n=$((n + 1))' WINCH; echo ready; while [ $n -lt 1 ]; do sleep 0.05; done; echo once; "+
			"while [ $n -lt 2 ]; do sleep 0.05; done; echo over")
		s.waitForText("ready\r\n")
		s.resized <- backends.Size{Columns: 81, Rows: 25}
		s.waitForText("25 81\r\nonce\r\n")
		s.resized <- backends.Size{Columns: 132, Rows: 50}
		s.waitForText("50 132\r\n")
		s.waitForExit(0)
	})
	t.Run("all of it arrives", func(t *testing.T) {
		s := startTerminal(t, b, "head -c 3000000 /dev/zero | tr '\\0' x; exit 3")
		s.waitForExit(3)
		if got := s.screen.String(); strings.Trim(got, "x") != "" || len(got) != 3_000_000 {
			t.Errorf("%d bytes arrived", len(got))
		}
	})
	t.Run("what outlives the program", func(t *testing.T) {
		s := startTerminal(t, b, "trap '' HUP; (trap '' HUP; sleep 1000) & echo over; exit 4")
		s.waitForExit(4)
	})
}
