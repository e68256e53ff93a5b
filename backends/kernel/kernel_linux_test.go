package kernel

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

// python is the interpreter of bare sandboxes, and of the tests about libraries: of those that are
// installed, the first that has them.
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
	hosttest.Missing(t, append([]string{"python"}, modules...)[len(modules)], "no python3 has "+strings.Join(modules, ", "))
	return ""
}

// session is a kernel that a test talks to.
type session struct {
	*Kernel
	t testing.TB
}

// eachPlace runs a test in a bare interpreter and in a real sandbox.
func eachPlace(t *testing.T, f func(t *testing.T, start func(t testing.TB) session)) {
	path := python(t)
	t.Run("bare", func(t *testing.T) {
		f(t, func(t testing.TB) session { return begin(t, newBare(t, map[string]string{"python": path}), "python") })
	})
	t.Run("sandbox", func(t *testing.T) {
		f(t, func(t testing.TB) session { return begin(t, sandboxed(t, backends.Limits{}), "python") })
	})
}

// sandboxed starts a real sandbox for Python.
func sandboxed(t testing.TB, limits backends.Limits) backends.Sandbox {
	t.Helper()
	b := process.New(process.Config{StateDir: t.TempDir()})
	t.Cleanup(func() { b.Close() })
	box, err := b.Start(t.Context(), backends.Spec{ID: "kernel", Language: "python", Keep: true, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close() })
	return box
}

func begin(t testing.TB, box backends.Sandbox, language string) session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	k, err := Start(ctx, box, language, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return session{k, t}
}

// between waits until programs have written a text between cells.
func (s session) between(stream *cutter, text string) {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(stream.kept(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("between cells came %q, want %q in it", stream.kept(), text)
		}
	}
}

// marked checks that a cell's mark came, and was not given up.
func marked(t testing.TB, stream *cutter) {
	t.Helper()
	stream.mu.Lock()
	defer stream.mu.Unlock()
	if len(stream.expect) > 0 {
		t.Errorf("%d marks have not come", len(stream.expect))
	}
}

// told is all that a cell said.
type told struct {
	Outcome
	Stdout, Stderr string
	Shown          []Bundle
}

func (s session) run(code string) told {
	s.t.Helper()
	return s.cell(context.Background(), Cell{Code: code})
}

func (s session) cell(ctx context.Context, c Cell) told {
	s.t.Helper()
	var out, err bytes.Buffer
	var got told
	c.Stdout, c.Stderr = &out, &err
	c.Display = func(b Bundle) { got.Shown = append(got.Shown, b) }
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	outcome, fault := s.Run(ctx, c)
	if fault != nil {
		s.t.Fatalf("%.100q: %v", c.Code, fault)
	}
	got.Outcome, got.Stdout, got.Stderr = outcome, out.String(), err.String()
	return got
}

// text is a cell's value as text, or its error in one line.
func (r told) text() string {
	switch {
	case r.Error != nil:
		return r.Error.Error()
	case r.Value != nil:
		return r.Value["text/plain"]
	}
	return ""
}
