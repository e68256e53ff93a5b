package console

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/cli/ptytest"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// testTerminal is a console on a pseudo-terminal, with a broker and the text on the screen.
type testTerminal struct {
	t        *testing.T
	c        *Console
	b        *approval.Broker
	keyboard *os.File
	seen     *hosttest.Buffer
}

func newTestTerminal(t *testing.T) *testTerminal {
	t.Helper()
	keyboard, tty := ptytest.Open(t)
	log, err := audit.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	s := &testTerminal{t: t, c: newConsole(tty, func() bool { return true }), b: approval.New(approval.Config{Audit: log}), keyboard: keyboard,
		seen: &hosttest.Buffer{}}
	s.c.glance = -1 // all input is an answer
	if err := tty.SetReadDeadline(time.Time{}); err != nil {
		hosttest.SkipMissing(t, "terminal", "its reads can't be ended: "+err.Error())
	}
	go io.Copy(s.seen, keyboard)
	t.Cleanup(func() {
		s.b.Close()
		log.Close()
	})
	return s
}

// submitQuestion submits a question of a run in the background.
func (s *testTerminal) submitQuestion(ctx context.Context, what string) chan approval.Answer {
	answer := make(chan approval.Answer, 1)
	go func() {
		a, _ := s.b.Ask(ctx, approval.Question{Kind: approval.Egress, What: what, Namespace: "team", Run: "run of " + what,
			CodeSHA256: strings.Repeat("ab", 32), CodeHead: "import os\n\x1b[2Jsandboxmcp: allow"}, s.c.AskOnTerminal(s.b))
		answer <- a
	}()
	return answer
}

func (s *testTerminal) waitForText(text string) {
	s.t.Helper()
	hosttest.Until(s.t, "the terminal shows "+text, func() bool { return strings.Contains(s.seen.String(), text) })
}

func (s *testTerminal) typeText(text string) {
	s.t.Helper()
	if _, err := s.keyboard.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

func TestAskOnTerminal(t *testing.T) {
	for _, tt := range []struct {
		typed string
		want  bool
	}{
		{"y\n", true}, {"YES\n", true}, {" y \n", true},
		{"\n", false}, {"n\n", false}, {"No\n", false}, {"\x04", false},
		{"sure\nyy\n\x1b[3;5Ry\n1\nn\n", false}, {"what?\ny\n", true},
	} {
		s := newTestTerminal(t)
		answer := s.submitQuestion(t.Context(), "example.com:5432\x1b[8m")
		s.waitForText("allow it for this run? [y/N] ")
		for i, line := range strings.SplitAfter(strings.TrimSuffix(tt.typed, "\n"), "\n") {
			hosttest.Until(t, "it is asked again", func() bool { return strings.Count(s.seen.String(), retryPrompt) == i })
			s.typeText(strings.TrimSuffix(line, "\n"))
			if tt.typed != "\x04" {
				s.typeText("\n")
			}
		}
		a := <-answer
		if a.Allowed != tt.want || a.By != approval.CommandLine() || a.Allowed && a.Scope != approval.ScopeRun {
			t.Errorf("%q: got %+v", tt.typed, a)
		}
		screen := s.seen.String()
		for _, want := range []string{strings.ReplaceAll(resetTerminal, "\n", "\r\n") +
			`sandboxmcp: the script wants to connect to example.com:5432\x1b[8m`, "namespace         team",
			"SHA-256 abababababababab\r", "    | import os\r", `    | \x1b[2Jsandboxmcp: allow`} {
			if !strings.Contains(screen, want) {
				t.Errorf("it shows %q, want %q", screen, want)
			}
		}
	}
}

// Input before a question is readable belongs to the script, and so does input after the answer.
func TestTypedAhead(t *testing.T) {
	s := newTestTerminal(t)
	s.c.shared, s.c.glance = true, time.Hour
	script := bufio.NewReader(pausedReader{s.c})
	lines := make(chan string, 10)
	go func() {
		for {
			line, err := script.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	next := func(want string) {
		t.Helper()
		if got := <-lines; got != want {
			t.Errorf("the script reads %q, want %q", got, want)
		}
	}
	s.typeText("first\n")
	next("first\n")
	answer := s.submitQuestion(t.Context(), "example.com")
	s.waitForText("[y/N] ")
	s.typeText("y\n") // typed for the script
	s.waitForText("[y/N] y\r\n")
	tty, err := s.c.tty.SyscallConn() // Fd would make reads ignore deadlines
	if err != nil {
		t.Fatal(err)
	}
	hosttest.Until(t, "it is read, and no answer", func() bool {
		waits := 1
		err := tty.Control(func(fd uintptr) { waits, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		return err == nil && waits == 0 && len(s.b.Pending()) == 1
	})
	s.c.tty.SetReadDeadline(time.Unix(1, 0))   // as if an hour had passed
	s.waitForText("[y/N] y\r\ny or n? [y/N] ") // it is asked again
	s.typeText("n\n")
	if a := <-answer; a.Allowed {
		t.Errorf("got %+v", a)
	}
	next("y\n")
	s.typeText("last\n")
	next("last\n")
}

// No output of the script appears while a question is open.
func TestOutputWaits(t *testing.T) {
	s := newTestTerminal(t)
	out := s.c.pausingWriter(s.seen)
	io.WriteString(out, "before\n")
	answer := s.submitQuestion(t.Context(), "example.com")
	s.waitForText("[y/N] ")
	written := make(chan bool)
	go func() {
		io.WriteString(out, "\x1b[2JProceed? [y/N] ")
		close(written)
	}()
	s.typeText("what?\n")
	s.waitForText(retryPrompt)
	select {
	case <-written:
		t.Error("the script writes over the question")
	default:
	}
	s.typeText("n\n")
	<-answer
	<-written
	s.waitForText("Proceed?")
}

// Questions appear one after the other, and disappear when their run ends.
func TestQuestionsOneByOne(t *testing.T) {
	s := newTestTerminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := s.submitQuestion(ctx, "a.example")
	s.waitForText("connect to a.example")
	second := s.submitQuestion(t.Context(), "b.example")
	hosttest.Until(t, "the second question is open", func() bool { return len(s.b.Pending()) == 2 })
	s.typeText("what?\n")
	s.waitForText(retryPrompt)
	if strings.Contains(s.seen.String(), "b.example") {
		t.Error("two questions stand on the screen")
	}
	cancel()
	<-first
	s.waitForText("no request is waiting any more")
	s.waitForText("connect to b.example")
	s.typeText("y\n")
	if a := <-second; !a.Allowed {
		t.Errorf("got %+v", a)
	}
	// A background job asks nobody, and is not stopped for trying.
	s.c.front = func() bool { return false }
	s.typeText("n\n") // it would wait for an answer otherwise
	pending, err := s.b.Open(t.Context(), approval.Question{Kind: approval.Egress, What: "c.example"})
	if err != nil {
		t.Fatal(err)
	}
	s.c.AskOnTerminal(s.b)(t.Context(), pending)
	s.c.writeText(t.Context(), "the end")
	s.waitForText("the end")
	if strings.Contains(s.seen.String(), "c.example") {
		t.Error("a job in the background asks")
	}
}

func TestNoTerminal(t *testing.T) {
	var none *Console
	defer none.Close()
	in, out := strings.NewReader(""), &hosttest.Buffer{}
	if none.AskOnTerminal(nil) != nil || none.pausingReader(in) != io.Reader(in) || none.pausingWriter(out) != io.Writer(out) {
		t.Error("it asks, or changes what the script reads and writes")
	}
	_, tty := ptytest.Open(t)
	if isControlling(tty) {
		t.Error("another's terminal is taken for ours")
	}
}

// A question takes the place of the screen of a program that has the terminal for itself, and one key answers it.
func TestQuestionOverScreen(t *testing.T) {
	for _, tt := range []struct {
		drawn, typed string
		want, draws  bool
	}{
		{"\x1b[?1000h\x1b[?25lhello", "y", true, false},
		{"\x1b[?1049hhello", "xyz\x1b[3;5Rq\x1b", false, true}, // of keys that arrive together, none counts
		{"\x1b[>1uhello", "n", false, false},
	} {
		s := newTestTerminal(t)
		var tty uintptr
		raw, err := s.c.tty.SyscallConn() // Fd would make reads ignore deadlines
		if err == nil {
			err = raw.Control(func(fd uintptr) { tty = fd })
		}
		if err == nil {
			_, err = term.MakeRaw(int(tty))
		}
		if err != nil {
			t.Fatal(err)
		}
		screen := &terminal.ScreenFilter{W: s.seen}
		redrawn := false
		q := &run.Request{}
		q.Stdout = screen
		s.c.AttendScreen(q, s.b, screen, func() { redrawn = true })
		io.WriteString(q.Stdout, tt.drawn)
		answer := s.submitQuestion(t.Context(), "example.com\x1b[2J")
		s.waitForText("Press y for yes, n for no. ")
		for part := range strings.SplitAfterSeq(tt.typed, "q") {
			s.typeText(part)
			hosttest.Until(t, "it is read", func() bool {
				waits, err := unix.IoctlGetInt(int(tty), unix.TIOCINQ)
				return err == nil && waits == 0
			})
		}
		if a := <-answer; a.Allowed != tt.want {
			t.Errorf("%q: got %+v", tt.typed, a)
		}
		text := s.seen.String()
		hosttest.Until(t, "the screen is given back", func() bool {
			text = s.seen.String()
			return strings.HasSuffix(text, "\x1b[?1049l") || tt.draws || strings.Contains(text, "\x1b[?1000h\x1b[?25l")
		})
		if strings.Contains(text, "example.com\x1b") || redrawn != tt.draws {
			t.Errorf("the terminal got %q, drawn again: %v", text, redrawn)
		}
	}
}
