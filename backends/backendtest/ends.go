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
)

func testEnds(t *testing.T, b *bench) {
	t.Run("exit codes", func(t *testing.T) { testExitCodes(t, b) })
	t.Run("signals", func(t *testing.T) { testSignals(t, b) })
	t.Run("tracebacks", func(t *testing.T) {
		t.Parallel()
		o := b.python(t, "raise ValueError('ünï')")
		if o.Ended != backends.EndedExit || o.ExitCode != 1 || !strings.Contains(o.Stderr, "ValueError: ünï") {
			t.Errorf("ended %s, exit code %d, %s", o.Ended, o.ExitCode, o.Stderr)
		}
	})
	t.Run("timeout", func(t *testing.T) { testTimeout(t, b) })
	t.Run("cancel", func(t *testing.T) { testCancel(t, b) })
	t.Run("what the program left running", func(t *testing.T) { testLeftRunning(t, b) })
	t.Run("zombies are reaped", func(t *testing.T) {
		b.layer(t, backends.LayerPID)
		t.Parallel()
		b.program(t, b.spec("python"), "zombies.py").ok(t)
	})
}

func testExitCodes(t *testing.T, b *bench) {
	t.Parallel()
	for _, code := range []int{0, 1, 2, 7, 124, 125, 126, 127, 128, 137, 139, 143, 255} {
		o := b.shell(t, fmt.Sprintf("exit %d", code))
		want := backends.EndedExit
		if code == 0 {
			want = backends.EndedOK
		}
		if o.ExitCode != code || o.Ended != want || o.Signal != "" || o.Limit != "" {
			t.Errorf("exit %d: ended %s, exit code %d, signal %q, limit %q", code, o.Ended, o.ExitCode, o.Signal, o.Limit)
		}
	}
}

// testSignals: a program can end by a signal like anywhere. As process 1 it could not, because
// the kernel spares that from signals it does not handle.
func testSignals(t *testing.T, b *bench) {
	t.Parallel()
	for name, number := range map[string]int{"SIGTERM": 15, "SIGKILL": 9, "SIGSEGV": 11, "SIGABRT": 6, "SIGPIPE": 13, "SIGINT": 2, "SIGUSR1": 10, "SIGFPE": 8} {
		o := b.shell(t, fmt.Sprintf("kill -%d $$; sleep 5", number))
		if o.Ended != backends.EndedSignal || o.ExitCode != 128+number || o.Signal != name || o.Limit != "" {
			t.Errorf("%s: ended %s, exit code %d, signal %q, limit %q", name, o.Ended, o.ExitCode, o.Signal, o.Limit)
		}
	}
	o := b.python(t, "import ctypes; ctypes.string_at(0)")
	if o.Ended != backends.EndedSignal || o.Signal != "SIGSEGV" || o.ExitCode != 139 {
		t.Errorf("real fault: ended %s, signal %s, exit code %d", o.Ended, o.Signal, o.ExitCode)
	}
}

// testTimeout: time is up for everything, in whatever way it hides.
func testTimeout(t *testing.T, b *bench) {
	for _, c := range []struct{ name, language, program string }{
		{"busy", "python", "while True: pass"},
		{"asleep", "python", "import time; time.sleep(1000)"},
		{"ignores SIGTERM", "python", "import signal, time\nfor s in range(1, 65):\n  try: signal.signal(s, signal.SIG_IGN)\n  except (OSError, ValueError): pass\ntime.sleep(1000)"},
		{"stops itself", "python", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"},
		{"closed its streams", "python", "import os, time; [os.close(i) for i in range(3)]; time.sleep(1000)"},
		{"swallows exceptions", "python", "import time\nwhile True:\n  try: time.sleep(1000)\n  except BaseException: pass"},
		{"node", "node", "for(;;);"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spec := b.spec(c.language)
			spec.Limits.Wall = 1200 * time.Millisecond
			flag := map[string]string{"python": "-c", "node": "-e"}[c.language]
			start := time.Now()
			o := exec(t, b.start(t, spec), c.language, flag, c.program)
			timedOut(t, o, spec.Limits.Wall, time.Since(start))
		})
	}
	t.Run("with descendants", func(t *testing.T) {
		t.Parallel()
		spec := b.spec("python")
		spec.Limits.Wall = 2500 * time.Millisecond
		word := ulid.Make().String()
		start := time.Now()
		o := b.program(t, spec, "descendants.py", word, "stay")
		timedOut(t, o, spec.Limits.Wall, time.Since(start))
		gone(t, o, word)
	})
	t.Run("output before it", func(t *testing.T) {
		t.Parallel()
		spec := b.spec("shell")
		spec.Limits.Wall = time.Second
		o := exec(t, b.start(t, spec), "bash", "-c", "echo before; sleep 100")
		if o.Ended != backends.EndedTimeout || o.Stdout != "before\n" {
			t.Errorf("ended %s, stdout %q", o.Ended, o.Stdout)
		}
	})
}

func timedOut(t *testing.T, o outcome, limit, took time.Duration) {
	t.Helper()
	if o.Ended != backends.EndedTimeout || o.Limit != "wall" {
		t.Errorf("ended %s, limit %q, exit code %d; want timeout, wall\n%s", o.Ended, o.Limit, o.ExitCode, o.Stderr)
	}
	if o.ExitCode == 0 {
		t.Errorf("exit code 0 after a timeout")
	}
	if took > limit+5*time.Second || o.Wall < limit-100*time.Millisecond {
		t.Errorf("took %v, and %v by the result; the limit is %v", took, o.Wall, limit)
	}
}

// gone fails the test if a process with word among its arguments is alive on the host.
func gone(t *testing.T, o outcome, word string) {
	t.Helper()
	if alive := processesWith(word); len(alive) > 0 {
		t.Errorf("alive on the host: %v", alive)
	}
	if !strings.Contains(o.Stdout, "descendants ready") {
		t.Errorf("the program did not get to make its descendants: %q %q", o.Stdout, o.Stderr)
	}
}

// processesWith lists processes of the host that have word in an argument.
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

func testCancel(t *testing.T, b *bench) {
	t.Run("while it runs", func(t *testing.T) {
		t.Parallel()
		word := ulid.Make().String()
		s := b.start(t, b.spec("python"))
		put(t, s, "descendants.py")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out lockedBuffer
		go func() {
			for range 500 {
				time.Sleep(20 * time.Millisecond)
				if strings.Contains(out.String(), "ready") {
					break
				}
			}
			cancel()
		}()
		start := time.Now()
		r, err := s.Exec(ctx, backends.Command{Args: []string{"python", "descendants.py", word, "stay"}}, backends.Streams{Stdout: &out})
		if err != nil || r.Ended != backends.EndedCancelled || r.ExitCode == 0 {
			t.Errorf("ended %s, exit code %d, %v", r.Ended, r.ExitCode, err)
		}
		if time.Since(start) > 15*time.Second {
			t.Errorf("took %v", time.Since(start))
		}
		gone(t, outcome{r, out.String(), ""}, word)
	})
	t.Run("by a deadline", func(t *testing.T) {
		t.Parallel()
		s := b.start(t, b.spec("shell"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := s.Exec(ctx, backends.Command{Args: []string{"sleep", "100"}}, backends.Streams{})
		if err != nil || r.Ended != backends.EndedCancelled {
			t.Errorf("ended %s, %v", r.Ended, err)
		}
	})
	t.Run("before it runs", func(t *testing.T) {
		t.Parallel()
		s := b.start(t, b.spec("shell"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r, err := s.Exec(ctx, backends.Command{Args: []string{"sleep", "100"}}, backends.Streams{})
		if !errors.Is(err, context.Canceled) && (err != nil || r.Ended != backends.EndedCancelled) {
			t.Errorf("ended %s, %v", r.Ended, err)
		}
	})
	t.Run("by closing the sandbox", func(t *testing.T) {
		t.Parallel()
		word := ulid.Make().String()
		s := b.start(t, b.spec("python"))
		put(t, s, "descendants.py")
		var out lockedBuffer
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Exec(context.Background(), backends.Command{Args: []string{"python", "descendants.py", word, "stay"}}, backends.Streams{Stdout: &out})
		}()
		for range 500 {
			time.Sleep(20 * time.Millisecond)
			if strings.Contains(out.String(), "ready") {
				break
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		select {
		case <-done:
		case <-time.After(15 * time.Second):
			t.Error("Exec hangs although its sandbox was closed")
		}
		gone(t, outcome{Stdout: out.String()}, word)
	})
}

// testLeftRunning: a program that ends well takes its descendants along, and nobody waits for them.
func testLeftRunning(t *testing.T, b *bench) {
	t.Parallel()
	word := ulid.Make().String()
	start := time.Now()
	o := b.program(t, b.spec("python"), "descendants.py", word, "leave").ok(t)
	gone(t, o, word)
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("took %v", took)
	}
}
