package packages

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func (b *bench) generations() int {
	all, _ := filepath.Glob(filepath.Join(b.cfg.Dir, "namespaces/*/*", generationPrefix+"*"))
	return len(all)
}

// TestHeld: a sandbox keeps the generation it started with, and that goes when nobody has it any more.
func TestHeld(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	b.install(b.order("python", "greet==1.0"))
	v := b.view("default", "", "python")
	running := b.start("python", v)
	b.install(b.order("python", "greet==2.0"))
	other := benchWith(t, Config{Dir: b.cfg.Dir}, b.registry) // its sweep must spare what we hold
	if got := b.says(running, "python", v, pyHello); got != "hello one, friend" {
		t.Errorf("the running sandbox says %q", got)
	}
	if got := other.run("default", "python", pyHello); got != "hello two, friend" {
		t.Errorf("a new one says %q", got)
	}
	if n := b.generations(); n != 2 {
		t.Errorf("%d generations while the old one is held", n)
	}
	running.Close()
	v.Release()
	v.Release()
	if n := b.generations(); n != 1 {
		t.Errorf("%d generations after it was released", n)
	}
}

// TestSession: a session's own packages lie on top of the namespace's, are there at once, and are
// nobody else's.
func TestSession(t *testing.T) {
	for _, tt := range []struct {
		language, one, loud, loudSpec, two string
		empty                              bool // the namespace has no packages of its own
	}{
		{"python", pyHello, "import loud; print(loud.name)", "loud", "greet==2.0", false},
		{"node", nodeHello, "console.log(require('@team/loud'))", "@team/loud", "greet@2.0.0", true},
	} {
		t.Run(tt.language, func(t *testing.T) {
			b := newBench(t, Config{})
			stock(b.registry)
			if !tt.empty {
				b.install(b.order(tt.language, strings.Replace(tt.two, "2.0", "1.0", 1)))
			}
			v, err := b.OpenSession(t.Context(), b.backend, "default", "s1", tt.language)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.OpenSession(t.Context(), b.backend, "default", "s2", tt.language); err != nil {
				t.Fatal(err)
			}
			running := b.start(tt.language, v)
			if got := b.says(running, tt.language, v, tt.one); !tt.empty && got != "hello one, friend" || tt.empty && !strings.Contains(got, "Error") {
				t.Errorf("%s: at first %q", tt.language, got)
			}
			o := b.order(tt.language, tt.loudSpec)
			o.Session = "s1"
			if r := b.install(o); len(r.Packages) == 0 || r.Layer == "" {
				t.Errorf("receipt %+v", r)
			}
			if got := b.says(running, tt.language, v, tt.loud); got != "FRIEND" {
				t.Errorf("%s: after an install in the session: %q", tt.language, got)
			}
			o.Packages = []string{tt.two}
			b.install(o)
			if got := b.says(running, tt.language, v, tt.one); got != "hello two, friend" {
				t.Errorf("%s: after an upgrade in the session: %q", tt.language, got)
			}
			for who, w := range map[string]View{"namespace": b.view("default", "", tt.language), "other session": b.view("default", "s2", tt.language)} {
				s := b.start(tt.language, w)
				if got := b.says(s, tt.language, w, tt.loud); !strings.Contains(got, "Error") {
					t.Errorf("%s: the %s sees the session's package: %q", tt.language, who, got)
				}
				if got := b.says(s, tt.language, w, tt.one); strings.Contains(got, "two") {
					t.Errorf("%s: the %s has changed: %q", tt.language, who, got)
				}
			}
			if _, err := b.View(t.Context(), b.backend, "team", "s1", tt.language); err == nil {
				t.Error("another namespace is shown the session")
			}
			o.Namespace = "team"
			if _, err := b.Install(t.Context(), o); err == nil {
				t.Error("another namespace installs into the session")
			}
			clean(t, b.cfg.Dir)
		})
	}
}

// TestDropped: a session's directory goes with it, also while something is being installed there.
func TestDropped(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	b.block(b.wheel("slow", "1.0", map[string]string{"slow.py": ""}))
	for _, id := range []string{"s1", "s2"} {
		if _, err := b.OpenSession(t.Context(), b.backend, "default", id, "python"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.OpenSession(t.Context(), b.backend, "default", "s1", "python"); err == nil {
		t.Error("a session was opened twice")
	}
	o := b.order("python", "slow")
	o.Session = "s1"
	ended := make(chan error)
	go func() {
		_, err := b.Install(t.Context(), o)
		ended <- err
	}()
	hosttest.Until(t, "the file is asked for", func() bool { return strings.Contains(b.requests(), "slow-1.0-py3") })
	if err := b.DropSession("s1"); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, errDropped) {
		t.Errorf("the install ended with %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(b.sessionsDir(), "*", "s?")); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(b.sessionsDir()); len(left) != 0 {
		t.Errorf("left after the store was closed: %v", left)
	}
	if _, err := b.Install(t.Context(), b.order("python", "greet")); !errors.Is(err, errClosed) {
		t.Errorf("install into a closed store: %v", err)
	}
}

// TestSweepSpares: however many servers begin and sweep at once, each has a directory that is locked, and stays.
func TestSweepSpares(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				first.sweepSessions()
			}
		}
	})
	for range 200 {
		s, err := Open(Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		home, err := s.home()
		if err != nil {
			t.Fatal(err)
		}
		first.sweepSessions()
		if again, err := s.home(); again != home || err != nil {
			t.Errorf("%s, then %s, %v", home, again, err)
		}
		if f, err := lock(filepath.Join(home, "lock"), true, false); f != nil || err != nil {
			t.Errorf("the lock of %s: %v %v", home, f, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	close(over)
	all.Wait()
	first.sweepSessions() // of two at once, one may leave a directory to the next
	if left, _ := os.ReadDir(first.sessionsDir()); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestKilled kills a server in the middle of an install: the layer is as it was, no lock is left,
// and the next server removes the rest.
func TestKilled(t *testing.T) {
	b := newBench(t, Config{})
	stock(b.registry)
	b.install(b.order("python", "greet==1.0"))
	b.block(b.wheel("slow", "1.0", map[string]string{"slow.py": ""}))
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "SANDBOXMCP_TEST_PACKAGES="+b.cfg.Dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("server: %q %v", line, err)
	}
	hosttest.Until(t, "the file is asked for", func() bool { return strings.Contains(b.requests(), "slow-1.0-py3") })
	cmd.Process.Kill()
	cmd.Wait()
	if got := b.run("default", "python", pyHello); got != "hello one, friend" {
		t.Errorf("got %q", got)
	}
	if left, _ := os.ReadDir(b.sessionsDir()); len(left) != 1 {
		t.Errorf("the server that was killed had a session: %v", left)
	}
	next := benchWith(t, Config{Dir: b.cfg.Dir}, b.registry)
	if left, _ := os.ReadDir(b.sessionsDir()); len(left) != 0 {
		t.Errorf("left after the next server's start: %v", left)
	}
	clean(t, b.cfg.Dir)
	if use, err := Cached(b.cfg.Dir); err != nil || use.Files != 2 || use.Sets != 1 {
		t.Errorf("cached: %+v %v, want greet and tone, and not what came only in part", use, err)
	}
	next.install(next.order("python", "loud"))
	if got := next.run("default", "python", pyHello+"; import loud"); got != "hello one, friend" {
		t.Errorf("got %q", got)
	}
}

// TestTooLarge: a layer that would be larger than the operator allows is not made.
func TestTooLarge(t *testing.T) {
	b := newBench(t, Config{MaxBytes: 1 << 20})
	stock(b.registry)
	b.wheel("heavy", "1.0", map[string]string{"heavy.py": "", "heavy.bin": strings.Repeat("0", 3<<20)})
	b.wheel("half", "1.0", map[string]string{"half.py": "", "half.bin": strings.Repeat("0", 700<<10)})
	b.wheel("other", "1.0", map[string]string{"other.py": "", "other.bin": strings.Repeat("1", 700<<10)})
	b.install(b.order("python", "half"))
	for _, name := range []string{"heavy", "other"} {
		r, err := b.Install(t.Context(), b.order("python", name))
		if err == nil && r.ExitCode == 0 {
			t.Errorf("%s was installed", name)
		}
		if name == "other" && (err == nil || !strings.Contains(err.Error(), "larger than 1 MiB")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	clean(t, b.cfg.Dir)
}
