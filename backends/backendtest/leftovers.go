//go:build linux

package backendtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// scenario is one way in which a sandbox ends.
type scenario struct {
	name    string
	session bool // sessions differ there
	run     func(t *testing.T, s backends.Sandbox, word string)
}

func scenarios() []scenario {
	return []scenario{
		{"never used", false, func(*testing.T, backends.Sandbox, string) {}},
		{"only files", false, func(t *testing.T, s backends.Sandbox, _ string) {
			putText(t, s, "a/b", "x")
			filesOf(t, s)
		}},
		{"normal end", true, func(t *testing.T, s backends.Sandbox, word string) {
			putPrograms(t, s, "descendants.py")
			mustExec(t, s, "python", "descendants.py", word, "leave").mustSucceed(t)
		}},
		{"timeout", true, func(t *testing.T, s backends.Sandbox, word string) {
			putPrograms(t, s, "descendants.py")
			mustExec(t, s, "python", "descendants.py", word, "stay")
		}},
		{"cancelled", true, func(t *testing.T, s backends.Sandbox, word string) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := runDescendants(ctx, t, s, word)
			cancel()
			<-ended
		}},
		{"killed", false, func(t *testing.T, s backends.Sandbox, word string) {
			mustExec(t, s, "bash", "-c", "kill -9 $$", word)
		}},
		{"out of memory", true, func(t *testing.T, s backends.Sandbox, word string) {
			putPrograms(t, s, "bombs.py")
			mustExec(t, s, "python", "bombs.py", "children", "700000000", word)
		}},
		{"no such program", false, func(t *testing.T, s backends.Sandbox, word string) {
			tryExec(t, s, backends.Command{Args: []string{"/no/such/" + word}}, nil)
		}},
		{"shared objects", false, func(t *testing.T, s backends.Sandbox, word string) {
			mustExec(t, s, "python", "-c", "import ctypes; c = ctypes.CDLL(None); print(c.shmget(0, 4096, 0o1600), c.semget(0, 1, 0o1600), "+
				"c.msgget(0, 0o1600), "+
				"c.mq_open(b'/x', 0o102, 0o600, None) if hasattr(c, 'mq_open') else 0)").mustSucceed(t)
		}},
		{"sealed directories", false, func(t *testing.T, s backends.Sandbox, word string) {
			putPrograms(t, s, "tricks.py")
			mustExec(t, s, "python", "tricks.py", word)
		}},
	}
}

// testLeftovers: no end of a run leaves a trace on the host.
func testLeftovers(t *testing.T, b *bench) {
	t.Setenv("TMPDIR", t.TempDir()) // a directory without other writers
	b.openOneTimeFiles(t)
	if !b.o.Warm {
		b.runScenarios(t, scenarios())
		t.Run("backend closed first", func(t *testing.T) { testClosedFirst(t, b) })
	}
	t.Run("many at once", func(t *testing.T) {
		before := b.hostState(t)
		backend := b.newBackend(t)
		errs := make(chan error)
		for i := range 8 {
			go func() {
				var err error
				for range hosttest.Rounds(4, 20) {
					if err = oneRun(t, backend, b, i); err != nil {
						break
					}
				}
				errs <- err
			}()
		}
		for range 8 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
		b.waitUnchanged(t, before)
	})
}

// openOneTimeFiles opens all files that this process opens once and keeps open, which are not leftovers. It closes
// the backend: an open one may prespawn processes during a check.
func (b *bench) openOneTimeFiles(t *testing.T) {
	first := b.newBackend(t)
	defer first.Close()
	(&bench{backend: first, newBackend: b.newBackend, o: b.o}).openSandbox(t, b.spec("python")).Close() // otherwise nothing is opened
	for i := range 2 {
		if err := oneRun(t, first, b, i); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
}

// runScenarios ends sandboxes of one backend by every scenario. Nothing of a sandbox is left while the backend is
// open, and nothing at all after its Close.
func (b *bench) runScenarios(t *testing.T, all []scenario) {
	before := b.hostState(t)
	backend := b.newBackend(t)
	end := func(t *testing.T, w scenario, keep bool) {
		b.parallel(t)
		word := ulid.Make().String()
		spec := b.spec("python")
		spec.Keep = keep
		spec.Limits.RAM = 128 << 20
		if w.name == "timeout" {
			spec.Limits.Wall = 2 * time.Second
		}
		s, err := backend.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		w.run(t, s, word)
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if alive := processesWith(word); len(alive) > 0 {
			t.Errorf("alive after Close: %v", alive)
		}
		b.checkNothingLeft(t, spec.ID)
	}
	t.Run("ways", func(t *testing.T) {
		for _, w := range all {
			t.Run(w.name, func(t *testing.T) { end(t, w, false) })
			if w.session {
				t.Run(w.name+", session", func(t *testing.T) { end(t, w, true) })
			}
		}
	})
	if err := backend.Close(); err != nil {
		t.Errorf("close backend: %v", err)
	}
	b.waitUnchanged(t, before)
}

func testClosedFirst(t *testing.T, b *bench) {
	before := b.hostState(t)
	backend := b.newBackend(t)
	word := ulid.Make().String()
	s, err := backend.Start(t.Context(), b.spec("python"))
	if err != nil {
		t.Fatal(err)
	}
	ended := runDescendants(context.Background(), t, s, word)
	if err := backend.Close(); err != nil {
		t.Errorf("close backend: %v", err)
	}
	o := <-ended
	s.Close()
	checkGone(t, o, word)
	b.waitUnchanged(t, before)
}

// oneRun runs a program of one language or another, with a child that would continue.
func oneRun(t *testing.T, backend backends.Backend, b *bench, i int) error {
	c := []struct{ language, runtime, name, text string }{
		{"shell", "bash", "main.sh", "sleep 1000 & echo %d"},
		{"python", "python", "main.py", "import subprocess; subprocess.Popen(['sleep', '1000']); print(%d)"},
	}[i%2]
	if !b.o.Cgroup && !b.promises(backends.LayerUser) {
		c.language, c.runtime, c.name, c.text = "shell", "bash", "main.sh", "echo %d" // processes of other runs count
	}
	spec, cmd := b.spec(c.language), backends.Command{Args: []string{c.runtime, c.name}}
	if b.o.Warm {
		spec.Program = &cmd
	}
	s, err := backend.Start(t.Context(), spec)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Files().Put(c.name, 0o644, strings.NewReader(fmt.Sprintf(c.text, i))); err != nil {
		return err
	}
	var out lockedBuffer
	r, err := s.Exec(t.Context(), cmd, backends.Streams{Stdout: &out})
	if err != nil {
		return err
	}
	if r.Ended != backends.EndedOK || out.String() != fmt.Sprintln(i) {
		return fmt.Errorf("run %d: ended %s, %q", i, r.Ended, out.String())
	}
	return s.Close()
}
