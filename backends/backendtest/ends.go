//go:build linux

package backendtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func testEnds(t *testing.T, b *bench) {
	b.runParallel(t, "exit codes", func(t *testing.T) { testExitCodes(t, b) })
	b.runParallel(t, "signals", func(t *testing.T) { testSignals(t, b) })
	b.runParallel(t, "tracebacks", func(t *testing.T) {
		o := b.python(t, "raise ValueError('ünï')")
		if o.Ended != backends.EndedExit || o.ExitCode != 1 || !strings.Contains(o.Stderr, "ValueError: ünï") {
			t.Errorf("ended %s, exit code %d, %s", o.Ended, o.ExitCode, o.Stderr)
		}
	})
	t.Run("timeout", func(t *testing.T) { testTimeout(t, b) })
	t.Run("cancel", func(t *testing.T) { testCancel(t, b) })
	b.runParallel(t, "what the program left running", func(t *testing.T) { testLeftRunning(t, b) })
	b.runParallel(t, "zombies are reaped", func(t *testing.T) {
		b.needLayer(t, backends.LayerPID)
		b.runProgramFile(t, b.spec("python"), "zombies.py").mustSucceed(t)
	})
}

// testExitCodes and testSignals use a separate sandbox for a few cases, and one for all others.
func testExitCodes(t *testing.T, b *bench) {
	ended := func(code int, o outcome) {
		t.Helper()
		want := backends.EndedExit
		if code == 0 {
			want = backends.EndedOK
		}
		if o.ExitCode != code || o.Ended != want || o.Signal != "" || o.Limit != "" {
			t.Errorf("exit %d: ended %s, exit code %d, signal %q, limit %q", code, o.Ended, o.ExitCode, o.Signal, o.Limit)
		}
	}
	for _, code := range []int{0, 7, 137, 255} {
		ended(code, b.shell(t, fmt.Sprintf("exit %d", code)))
	}
	s := b.session(t, "shell")
	for _, code := range []int{0, 1, 2, 124, 125, 126, 127, 128, 139, 143} {
		ended(code, mustExec(t, s, "bash", "-c", fmt.Sprintf("exit %d", code)))
	}
}

// testSignals: a signal can end a program. It could not end PID 1, which the kernel protects from signals without a
// handler.
func testSignals(t *testing.T, b *bench) {
	ended := func(name string, number int, o outcome) {
		t.Helper()
		if o.Ended != backends.EndedSignal || o.ExitCode != 128+number || o.Signal != name || o.Limit != "" {
			t.Errorf("%s: ended %s, exit code %d, signal %q, limit %q", name, o.Ended, o.ExitCode, o.Signal, o.Limit)
		}
	}
	const script = "kill -%d $$; sleep 5"
	for name, number := range map[string]int{"SIGTERM": 15, "SIGKILL": 9} {
		ended(name, number, b.shell(t, fmt.Sprintf(script, number)))
	}
	ended("SIGSEGV", 11, b.python(t, "import ctypes; ctypes.string_at(0)"))
	s := b.session(t, "shell")
	for name, number := range map[string]int{"SIGSEGV": 11, "SIGABRT": 6, "SIGPIPE": 13, "SIGINT": 2, "SIGUSR1": 10, "SIGFPE": 8} {
		ended(name, number, mustExec(t, s, "bash", "-c", fmt.Sprintf(script, number)))
	}
}

// testTimeout: the timeout ends all processes, also hidden ones.
func testTimeout(t *testing.T, b *bench) {
	for _, c := range []struct{ name, language, program string }{
		{"busy", "python", "while True: pass"},
		{"asleep", "shell", "echo ready; sleep 1000"},
		{"ignores SIGTERM", "python", "import signal, time\nfor s in range(1, 65):\n  try: signal.signal(s, signal.SIG_IGN)\n  except " +
			"(OSError, ValueError): pass\ntime.sleep(1000)"},
		{"stops itself", "python", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"},
		{"closed its streams", "python", "import os, time; [os.close(i) for i in range(3)]; time.sleep(1000)"},
		{"swallows exceptions", "python", "import time\nwhile True:\n  try: time.sleep(1000)\n  except BaseException: pass"},
		{"node", "node", "require('fs').writeSync(1, 'ready'); for(;;);"},
	} {
		b.runParallel(t, c.name, func(t *testing.T) {
			if c.language == "python" {
				c.program = "print('ready', flush=True)\n" + c.program
			}
			b.timedOut(t, c.language, func(spec backends.Spec) outcome { return b.run(t, spec, c.program) })
		})
	}
	b.runParallel(t, "with descendants", func(t *testing.T) {
		word := ulid.Make().String()
		o := b.timedOut(t, "python", func(spec backends.Spec) outcome { return b.runProgramFile(t, spec, "descendants.py", word, "stay") })
		checkGone(t, o, word)
	})
}

// timedOut runs a program with increasing timeouts until it reports that it is ready: this machine may be slow.
func (b *bench) timedOut(t *testing.T, language string, run func(backends.Spec) outcome) outcome {
	t.Helper()
	for wall := time.Second; ; wall *= 2 {
		spec := b.spec(language)
		spec.Limits.Wall = wall
		o := run(spec)
		if o.Ended != backends.EndedTimeout || o.Limit != "wall" || o.ExitCode == 0 {
			t.Fatalf("ended %s, limit %q, exit code %d; want timeout, wall\n%s", o.Ended, o.Limit, o.ExitCode, o.Stderr)
		}
		if o.Wall < wall-100*time.Millisecond {
			t.Errorf("took %v; the limit is %v", o.Wall, wall)
		}
		if strings.Contains(o.Stdout, "ready") {
			return o
		}
	}
}

// checkGone fails the test if a process with word among its arguments is alive on the host.
func checkGone(t *testing.T, o outcome, word string) {
	t.Helper()
	if alive := processesWith(word); len(alive) > 0 {
		t.Errorf("alive on the host: %v", alive)
	}
	if !strings.Contains(o.Stdout, "descendants ready") {
		t.Errorf("the program did not get to make its descendants: %q %q", o.Stdout, o.Stderr)
	}
}

// processesWith lists host processes that have word in an argument.
func processesWith(word string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		pid := filepath.Base(filepath.Dir(file))
		if pid == strconv.Itoa(os.Getpid()) {
			continue
		}
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), word) {
			found = append(found, pid+" "+strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return found
}

// runDescendants runs a program whose descendants hide by every known means, and returns when they exist.
func runDescendants(ctx context.Context, t testing.TB, s backends.Sandbox, word string) <-chan outcome {
	t.Helper()
	putPrograms(t, s, "descendants.py")
	var out lockedBuffer
	ended := make(chan outcome, 1)
	go func() {
		r, err := s.Exec(ctx, backends.Command{Args: []string{"python", "descendants.py", word, "stay"}}, backends.Streams{Stdout: &out})
		t.Logf("exec: %v", err)
		ended <- outcome{r, out.String(), ""}
	}()
	hosttest.Until(t, "the descendants are there", func() bool { return strings.Contains(out.String(), "ready") || len(ended) > 0 })
	return ended
}

func testCancel(t *testing.T, b *bench) {
	b.runParallel(t, "while it runs", func(t *testing.T) {
		word := ulid.Make().String()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := runDescendants(ctx, t, b.start(t, b.spec("python")), word)
		cancel()
		o := <-ended
		if o.Ended != backends.EndedCancelled || o.ExitCode == 0 {
			t.Errorf("ended %s, exit code %d", o.Ended, o.ExitCode)
		}
		checkGone(t, o, word)
	})
	// A program with output has begun: no error may then report that it was not started.
	b.runParallel(t, "at its first output", func(t *testing.T) {
		for range 8 {
			ctx, cancel := context.WithCancel(t.Context())
			out := onWrite{cancel: cancel}
			r, err := b.start(t, b.spec("shell")).Exec(ctx, backends.Command{Args: []string{"bash", "-c", "echo begun; sleep 1000"}},
				backends.Streams{Stdout: &out})
			if err != nil || r.Ended != backends.EndedCancelled || out.String() != "begun\n" {
				t.Errorf("ended %s with %q, %v", r.Ended, out.String(), err)
			}
		}
	})
	b.runParallel(t, "by a deadline", func(t *testing.T) {
		s := b.start(t, b.spec("shell"))
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		runCancelled(t, s, ctx)
	})
	b.runParallel(t, "before it runs", func(t *testing.T) {
		s := b.start(t, b.spec("shell"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		runCancelled(t, s, ctx)
	})
	b.runParallel(t, "by closing the sandbox", func(t *testing.T) {
		word := ulid.Make().String()
		s := b.start(t, b.spec("python"))
		ended := runDescendants(context.Background(), t, s, word)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		checkGone(t, <-ended, word)
	})
}

// onWrite cancels a context at the first write.
type onWrite struct {
	lockedBuffer
	cancel context.CancelFunc
}

func (w *onWrite) Write(p []byte) (int, error) {
	w.cancel()
	return w.lockedBuffer.Write(p)
}

// runCancelled runs a command whose context ends. An error is permitted only if the command did not run.
func runCancelled(t *testing.T, s backends.Sandbox, ctx context.Context) {
	t.Helper()
	r, err := s.Exec(ctx, backends.Command{Args: []string{"sleep", "1000"}}, backends.Streams{})
	if !(err != nil && errors.Is(err, ctx.Err())) && (err != nil || r.Ended != backends.EndedCancelled) {
		t.Errorf("ended %s, %v", r.Ended, err)
	}
}

// testLeftRunning: the end of a program ends its descendants, and Exec does not wait for them.
func testLeftRunning(t *testing.T, b *bench) {
	word := ulid.Make().String()
	checkGone(t, b.runProgramFile(t, b.spec("python"), "descendants.py", word, "leave").mustSucceed(t), word)
}
