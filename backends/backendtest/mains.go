//go:build linux

package backendtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// interpreter is a session's interpreter under test.
type interpreter struct {
	channel   io.ReadWriteCloser
	lines     *bufio.Reader
	interrupt chan struct{}
	begun     chan backends.Containment
	ended     chan outcome
}

// startInterpreter starts evaluator as the sandbox's Main command.
func startInterpreter(ctx context.Context, t testing.TB, s backends.Sandbox) *interpreter {
	t.Helper()
	m := &interpreter{interrupt: make(chan struct{}), begun: make(chan backends.Containment, 1), ended: make(chan outcome, 1)}
	got := make(chan struct{})
	go func() {
		var o outcome
		var stdout, stderr strings.Builder
		r, err := s.Exec(ctx, backends.Command{Args: []string{"python", "-c", evaluator}, Main: true}, backends.Streams{
			Stdout: &stdout, Stderr: &stderr,
			Channel:   func(c io.ReadWriteCloser) { m.channel = c; close(got) },
			Interrupt: m.interrupt,
			Begun:     func(c backends.Containment) { m.begun <- c },
		})
		if o.Result, o.Stdout, o.Stderr = r, stdout.String(), stderr.String(); err != nil {
			t.Errorf("main: %v", err)
		}
		m.ended <- o
	}()
	<-got
	m.lines = bufio.NewReader(m.channel)
	t.Cleanup(func() { m.channel.Close() })
	return m
}

func (m *interpreter) evaluate(t testing.TB, line string) string {
	t.Helper()
	fmt.Fprintln(m.channel, line)
	return m.readAnswer(t)
}

func (m *interpreter) readAnswer(t testing.TB) string {
	t.Helper()
	answer, err := m.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("after %q: %v", answer, err)
	}
	return strings.TrimSpace(answer)
}

// evaluator answers each line of its channel with the value of the expression in that line.
const evaluator = `
import os, sys, time, subprocess
lines = os.fdopen(os.dup(3), "r")
for line in lines:
    try:
        answer = eval(line)
    except BaseException as e:
        answer = type(e).__name__
    os.write(3, (str(answer) + "\n").encode())
`

// testMains: a session's interpreter has a private channel, can be interrupted, lives as long as its sandbox, and ends
// all other processes with it.
func testMains(t *testing.T, b *bench) {
	spec := b.spec("python")
	spec.Keep = true
	b.runParallel(t, "channel", func(t *testing.T) {
		m := startInterpreter(t.Context(), t, b.start(t, spec))
		if got := m.evaluate(t, "6 * 7"); got != "42" {
			t.Errorf("got %q", got)
		}
		c := <-m.begun
		for _, l := range c.Layers {
			if b.promises(l.Name) && !l.InForce {
				t.Errorf("layer %s does not hold: %s", l.Name, l.Detail)
			}
		}
		if got := m.evaluate(t, `subprocess.run(["bash", "-c", "echo forged >&3"]).returncode`); got == "0" || got == "forged" {
			t.Errorf("a child got the channel: %q", got)
		}
		m.channel.Close()
		if o := <-m.ended; o.Ended != backends.EndedOK {
			t.Errorf("at the end of its channel: %s %s", o.Ended, o.Stderr)
		}
	})
	b.runParallel(t, "interrupt", func(t *testing.T) {
		m := startInterpreter(t.Context(), t, b.start(t, spec))
		for _, code := range []string{"time.sleep(100)", `[0 for _ in iter(int, 1)]`, `subprocess.run(["sleep", "100"])`} {
			if got := m.evaluate(t, `os.write(3, b"begun\n") and `+code); got != "begun" {
				t.Fatalf("%s: got %q", code, got)
			}
			m.interrupt <- struct{}{}
			if got := m.readAnswer(t); got != "KeyboardInterrupt" {
				t.Errorf("%s: got %q", code, got)
			}
		}
		if got := m.evaluate(t, "1 + 1"); got != "2" {
			t.Errorf("afterwards: %q", got)
		}
	})
	b.runParallel(t, "longer than a command may", func(t *testing.T) {
		spec := spec
		spec.Limits.Wall = 500 * time.Millisecond
		m := startInterpreter(t.Context(), t, b.start(t, spec))
		if got := m.evaluate(t, "time.sleep(1)"); got != "None" {
			t.Errorf("got %q", got)
		}
		select {
		case o := <-m.ended:
			t.Errorf("ended %s", o.Ended)
		default:
		}
	})
	b.runParallel(t, "its end ends all", func(t *testing.T) {
		s := b.start(t, spec)
		word := ulid.Make().String()
		m := startInterpreter(t.Context(), t, s)
		m.evaluate(t, fmt.Sprintf(`subprocess.Popen(["setsid", "bash", "-c", "while :; do sleep 100; done", %q]) and 1`, word))
		// between two execs a process has no command line
		hosttest.Until(t, "it has started", func() bool { return len(processesWith(word)) > 0 })
		m.channel.Close()
		<-m.ended
		hosttest.Until(t, "it has ended", func() bool { return len(processesWith(word)) == 0 })
		if o := mustExec(t, s, "python", "-c", "print(1)"); o.Stdout != "1\n" {
			t.Errorf("the sandbox did not outlive it: %s %q", o.Ended, o.Stdout)
		}
	})
	b.runParallel(t, "cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := startInterpreter(ctx, t, b.start(t, spec))
		m.evaluate(t, "1")
		cancel()
		if o := <-m.ended; o.Ended != backends.EndedCancelled {
			t.Errorf("ended %s", o.Ended)
		}
	})
	b.runParallel(t, "failures are reported to their own caller", func(t *testing.T) {
		s := b.start(t, spec)
		m := startInterpreter(t.Context(), t, s)
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				name := "true"
				if i%2 == 0 {
					name = "/nowhere"
				}
				_, err := tryExec(t, s, backends.Command{Args: []string{name}}, nil)
				if (err != nil) != (name == "/nowhere") {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		all.Wait()
		if got := m.evaluate(t, "1 + 1"); got != "2" {
			t.Errorf("got %q", got)
		}
	})
	b.runParallel(t, "usage and limits", func(t *testing.T) {
		s := b.start(t, spec)
		m := startInterpreter(t.Context(), t, s)
		m.evaluate(t, `globals().update(a=bytearray(b"x" * (80 << 20)))`)
		if u := s.Usage(); u.Memory < 80<<20 || u.Memory > 200<<20 || u.Processes < 1 {
			t.Errorf("usage with 80 MB in one process: %+v", u)
		}
		m.evaluate(t, `globals().pop("a") and 1`)
		l, err := s.Limit(backends.Limits{RAM: 100 << 20})
		if err != nil || l.RAM != 100<<20 || l.Disk != spec.Limits.Disk {
			t.Fatalf("got %+v, %v", l, err)
		}
		fmt.Fprintln(m.channel, `bytearray(b"x" * (180 << 20))`)
		if o := <-m.ended; o.Ended != backends.EndedOOM {
			t.Errorf("180 MB with a limit that was lowered to 100: ended %s", o.Ended)
		}
	})
}
