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

func (b *bench) layers() int {
	all, _ := filepath.Glob(filepath.Join(b.cfg.Dir, "namespaces/*/*", layerPrefix+"*"))
	return len(all)
}

// TestHeld: a sandbox keeps the layer it started with, and that goes when nobody has it any more.
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
	if n := b.layers(); n != 2 {
		t.Errorf("%d layers while the old one is held", n)
	}
	running.Close()
	v.Release()
	v.Release()
	if n := b.layers(); n != 1 {
		t.Errorf("%d layers after it was released", n)
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
			if got := b.says(running, tt.language, v, tt.one); !tt.empty && got != "hello one, friend" || tt.empty &&
				!strings.Contains(got, "Error") {
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
			for who, w := range map[string]View{"namespace": b.view("default", "", tt.language),
				"other session": b.view("default", "s2", tt.language)} {
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
	if left, _ := filepath.Glob(b.sessionLayers().join("*")); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(string(b.sessionLayers())); len(left) != 0 {
		t.Errorf("left after the store was closed: %v", left)
	}
	if _, err := b.Install(t.Context(), b.order("python", "greet")); !errors.Is(err, errClosed) {
		t.Errorf("install into a closed store: %v", err)
	}
}

// TestSweepSpares: however many servers begin and sweep at once, each layer that is being made has a lock, and stays.
func TestSweepSpares(t *testing.T) {
	in := layers(t.TempDir())
	stop := sweep(in, 2)
	for range 500 {
		l, held, err := in.add("node_modules")
		if err != nil {
			t.Fatal(err)
		}
		in.prune()
		if _, err := os.Stat(filepath.Join(l.content(), "node_modules")); err != nil {
			t.Error(err)
		}
		if f, err := lock(filepath.Join(l.dir, "lock"), true); f != nil || err != nil {
			t.Errorf("the lock of %s: %v %v", l.dir, f, err)
		}
		held.Close()
	}
	stop()
	in.prune() // of two at once, one may leave a directory to the next
	if left, _ := os.ReadDir(string(in)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// sweep has n others prune all the time, until stop.
func sweep(in layers, n int) (stop func()) {
	over := make(chan struct{})
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					in.prune()
				}
			}
		})
	}
	return func() { close(over); all.Wait() }
}

// TestPublished: a layer stays from when it is made until another one is current, however often others sweep meanwhile.
func TestPublished(t *testing.T) {
	in := layers(t.TempDir())
	stop := sweep(in, 1)
	for range 100 {
		l, held, err := in.add(".")
		if err == nil {
			_, err = in.publish(l)
		}
		if err != nil {
			t.Fatal(err)
		}
		held.Close()
		if got, _, f, err := in.lockCurrent(); f == nil || err != nil || got.dir != l.dir {
			t.Errorf("got %v %v %v, want %s", got, f, err, l.dir)
		} else if _, err := load(got.dir); err != nil {
			t.Error(err)
		} else {
			f.Close()
		}
	}
	stop()
	in.prune()
	if left, _ := filepath.Glob(in.join(layerPrefix + "*")); len(left) != 1 {
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
	if left, _ := os.ReadDir(string(b.sessionLayers())); len(left) != 1 {
		t.Errorf("the server that was killed had a session: %v", left)
	}
	next := benchWith(t, Config{Dir: b.cfg.Dir}, b.registry)
	if left, _ := os.ReadDir(string(b.sessionLayers())); len(left) != 0 {
		t.Errorf("left after the next server's start: %v", left)
	}
	clean(t, b.cfg.Dir)
	if sets, _ := b.cachedSets(); sets != 1 {
		t.Errorf("%d sets are cached, want greet with tone, and not what came only in part", sets)
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
		if name == "other" && (err == nil || !strings.Contains(err.Error(), "would exceed packages.max_mb")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	clean(t, b.cfg.Dir)
}
