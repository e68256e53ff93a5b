package backendtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// testLeftovers: whatever way a run ends, the host looks as before.
func testLeftovers(t *testing.T, b *bench) {
	t.Setenv("TMPDIR", t.TempDir()) // one that nobody else writes to
	// What a library opens once in the life of this process is no leftover. A backend of its own,
	// closed here: one that lives on may be making sandboxes ahead while we look.
	first := b.newBackend(t)
	if err := oneRun(t, first, b, 0); err != nil {
		t.Fatal(err)
	}
	(&bench{backend: first, newBackend: b.newBackend, o: b.o}).start(t, b.spec("python")).Close() // or there is nothing to see
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	ways := []struct {
		name string
		run  func(t *testing.T, s backends.Sandbox, word string)
	}{
		{"never used", func(*testing.T, backends.Sandbox, string) {}},
		{"only files", func(t *testing.T, s backends.Sandbox, _ string) {
			if err := s.Files().Put("a/b", 0o644, strings.NewReader("x")); err != nil {
				t.Error(err)
			}
			listed(t, s)
		}},
		{"normal end", func(t *testing.T, s backends.Sandbox, word string) {
			put(t, s, "descendants.py")
			exec(t, s, "python", "descendants.py", word, "leave").ok(t)
		}},
		{"timeout", func(t *testing.T, s backends.Sandbox, word string) {
			put(t, s, "descendants.py")
			exec(t, s, "python", "descendants.py", word, "stay")
		}},
		{"cancelled", func(t *testing.T, s backends.Sandbox, word string) {
			put(t, s, "descendants.py")
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			defer cancel()
			s.Exec(ctx, backends.Command{Args: []string{"python", "descendants.py", word, "stay"}}, backends.Streams{})
		}},
		{"killed", func(t *testing.T, s backends.Sandbox, word string) {
			exec(t, s, "bash", "-c", "kill -9 $$", word)
		}},
		{"out of memory", func(t *testing.T, s backends.Sandbox, word string) {
			put(t, s, "bombs.py")
			exec(t, s, "python", "bombs.py", "children", "700000000", word)
		}},
		{"no such program", func(t *testing.T, s backends.Sandbox, word string) {
			try(t, s, backends.Command{Args: []string{"/no/such/" + word}}, nil)
		}},
		{"shared objects", func(t *testing.T, s backends.Sandbox, word string) {
			exec(t, s, "python", "-c", "import ctypes; c = ctypes.CDLL(None); print(c.shmget(0, 4096, 0o1600), c.semget(0, 1, 0o1600), c.msgget(0, 0o1600), "+
				"c.mq_open(b'/x', 0o102, 0o600, None) if hasattr(c, 'mq_open') else 0)").ok(t)
		}},
		{"sealed folders", func(t *testing.T, s backends.Sandbox, word string) {
			put(t, s, "tricks.py")
			exec(t, s, "python", "tricks.py", word)
		}},
	}
	for _, keep := range []bool{false, true} {
		for _, way := range ways {
			name := way.name
			if keep {
				name += ", session"
			}
			t.Run(name, func(t *testing.T) {
				before := b.host(t)
				backend := b.newBackend(t)
				word := ulid.Make().String()
				spec := b.spec("python")
				spec.Keep = keep
				spec.Limits.Wall = 2 * time.Second
				spec.Limits.RAM = 128 << 20
				s, err := backend.Start(t.Context(), spec)
				if err != nil {
					t.Fatal(err)
				}
				way.run(t, s, word)
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
				if alive := processesWith(word); len(alive) > 0 {
					t.Errorf("alive after Close: %v", alive)
				}
				b.nothingLeft(t, spec.ID)
				if err := backend.Close(); err != nil {
					t.Errorf("close backend: %v", err)
				}
				b.unchanged(t, before)
			})
		}
	}
	t.Run("backend closed first", func(t *testing.T) {
		before := b.host(t)
		backend := b.newBackend(t)
		word := ulid.Make().String()
		s, err := backend.Start(t.Context(), b.spec("python"))
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "descendants.py")
		done := make(chan struct{})
		var out lockedBuffer
		go func() {
			defer close(done)
			s.Exec(context.Background(), backends.Command{Args: []string{"python", "descendants.py", word, "stay"}}, backends.Streams{Stdout: &out})
		}()
		for range 200 {
			if strings.Contains(out.String(), "ready") {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err := backend.Close(); err != nil {
			t.Errorf("close backend: %v", err)
		}
		select {
		case <-done:
		case <-time.After(15 * time.Second):
			t.Error("Exec hangs although its backend was closed")
		}
		s.Close()
		gone(t, outcome{Stdout: out.String()}, word)
		b.unchanged(t, before)
	})
	t.Run("many at once", func(t *testing.T) {
		before := b.host(t)
		backend := b.newBackend(t)
		errs := make(chan error)
		for i := range 8 {
			go func() {
				var err error
				for range 10 {
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
		b.unchanged(t, before)
	})
}

func oneRun(t *testing.T, backend backends.Backend, b *bench, i int) error {
	spec := b.spec("shell")
	s, err := backend.Start(t.Context(), spec)
	if err != nil {
		return err
	}
	defer s.Close()
	var out lockedBuffer
	r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", fmt.Sprintf("sleep 100 & echo %d", i)}}, backends.Streams{Stdout: &out})
	if err != nil {
		return err
	}
	if r.Ended != backends.EndedOK || out.String() != fmt.Sprintln(i) {
		return fmt.Errorf("run %d: ended %s, %q", i, r.Ended, out.String())
	}
	return s.Close()
}
