package kernel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

// python returns the interpreter for bare sandboxes and tests of libraries: the first installed one that has the
// modules.
func python(t testing.TB, modules ...string) string {
	t.Helper()
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		program := "import sys"
		for _, m := range modules {
			program += "; import " + m
		}
		out, err := exec.Command(path, "-c", program+"; print(sys.executable)").Output()
		if err == nil {
			return strings.TrimSpace(string(out))
		}
	}
	hosttest.SkipMissing(t, append([]string{"python"}, modules...)[len(modules)], "no python3 has "+strings.Join(modules, ", "))
	return ""
}

// session is a kernel under test.
type session struct {
	*Kernel
	t testing.TB
}

// eachPlace runs a test in a bare interpreter and in a real sandbox.
func eachPlace(t *testing.T, f func(t *testing.T, start func(t testing.TB) session)) {
	path := python(t)
	t.Run("bare", func(t *testing.T) {
		t.Parallel()
		f(t, func(t testing.TB) session {
			return startSession(t, newBare(t, map[string]string{"python": path}), "python")
		})
	})
	t.Run("sandbox", func(t *testing.T) {
		t.Parallel()
		f(t, func(t testing.TB) session { return sandboxed(t, "python", backends.Limits{}) })
	})
}

// sandboxed starts an interpreter in a real sandbox.
func sandboxed(t testing.TB, language string, limits backends.Limits) session {
	t.Helper()
	return startSession(t, sandbox(t, language, limits), language)
}

func sandbox(t testing.TB, language string, limits backends.Limits) backends.Sandbox {
	t.Helper()
	b := process.New(process.Config{StateDir: t.TempDir()})
	t.Cleanup(func() { b.Close() })
	sb, err := b.Start(t.Context(), backends.Spec{ID: "kernel", Language: language, Keep: true, Limits: limits})
	var refusal *backends.Refusal
	if errors.As(err, &refusal) && refusal.Layer == "" {
		hosttest.SkipMissing(t, cmp.Or(map[string]string{"shell": "bash"}[language], language), err.Error())
	}
	if errors.As(err, &refusal) {
		hosttest.SkipMissing(t, "sandbox", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb
}

func startSession(t testing.TB, sb backends.Sandbox, language string) session {
	t.Helper()
	k, err := Start(t.Context(), sb, language, backends.Command{Main: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return session{k, t}
}

// waitBetween waits until programs have written text while no cell runs.
func (s session) waitBetween(stream *cutter, text string) {
	s.t.Helper()
	hosttest.Until(s.t, fmt.Sprintf("%q comes between cells", text), func() bool { return strings.Contains(stream.betweenText(), text) })
}

// awaitLeftover waits for the variable by which code left running by a cell reports that the cell has ended.
func (s session) awaitLeftover() {
	s.t.Helper()
	if err := s.Set(s.t.Context(), "over", []byte("true")); err != nil {
		s.t.Fatal(err)
	}
}

// checkMarked checks that a cell's mark arrived and was not overdue.
func checkMarked(t testing.TB, stream *cutter) {
	t.Helper()
	stream.mu.Lock()
	defer stream.mu.Unlock()
	if len(stream.expect) > 0 {
		t.Errorf("%d marks have not come", len(stream.expect))
	}
}

// transcript is the complete output of a cell.
type transcript struct {
	Outcome
	Stdout, Stderr string
	Displays       []Bundle
}

func (s session) run(code string) transcript {
	s.t.Helper()
	return s.cell(context.Background(), Cell{Code: code})
}

// runInterrupted runs code and cancels it when it prints "begun". It repeats the interrupt twice a second, since a
// signal can come too early and code can swallow one.
func (s session) runInterrupted(code string) transcript {
	s.t.Helper()
	return s.runCancelled(Cell{Code: code, Grace: time.Hour}, "begun")
}

func (s session) runCancelled(c Cell, when string) transcript {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	c.Stdout = watcher(func(text string) {
		if strings.Contains(text, when) {
			cancel()
		}
	})
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		<-ctx.Done()
		again := time.NewTicker(500 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				s.requestInterrupt()
			case <-ended:
				return
			}
		}
	}()
	return s.cell(ctx, c)
}

// watcher is called with each written text.
type watcher func(text string)

func (w watcher) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

func (s session) cell(ctx context.Context, c Cell) transcript {
	s.t.Helper()
	var out, err bytes.Buffer
	var got transcript
	watch, show := c.Stdout, c.Display
	c.Stdout, c.Stderr = &out, &err
	if watch != nil {
		c.Stdout = io.MultiWriter(&out, watch)
	}
	c.Display = func(b Bundle) {
		got.Displays = append(got.Displays, b)
		if show != nil {
			show(b)
		}
	}
	if c.Timeout == 0 {
		c.Timeout = time.Hour
	}
	outcome, fault := s.Run(ctx, c)
	if fault != nil {
		s.t.Fatalf("%.100q: %v", c.Code, fault)
	}
	got.Outcome, got.Stdout, got.Stderr = outcome, out.String(), err.String()
	return got
}

// text returns a cell's value as text, or its error in one line.
func (r transcript) text() string {
	switch {
	case r.Error != nil:
		return r.Error.Error()
	case r.Value != nil:
		return r.Value["text/plain"]
	}
	return ""
}
