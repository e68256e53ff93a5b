package container

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// waitIdle waits until there are n idle containers.
func waitIdle(t *testing.T, b *Backend, n int) {
	t.Helper()
	hosttest.Until(t, fmt.Sprint(n, " containers wait"), func() bool {
		got := 0
		for _, p := range b.Pools() {
			got += p.Ready
		}
		return got == n
	})
}

// idleInits returns the idle containers.
func idleInits(b *Backend) map[*initHandle]bool {
	b.mu.Lock()
	keys := slices.Collect(maps.Keys(b.plans))
	b.mu.Unlock()
	all := map[*initHandle]bool{}
	for _, key := range keys {
		for _, h := range b.pool.Idle(key) {
			all[h] = true
		}
	}
	return all
}

func startSandbox(t *testing.T, b *Backend, spec backends.Spec) *sandbox {
	t.Helper()
	s, err := b.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*sandbox)
}

func TestPool(t *testing.T) {
	d, c := newDouble(), config(t)
	c.Ahead = 2
	b := New(d, c)
	defer closeAndCheck(t, b, d)
	used := map[string]bool{}
	use := func(spec backends.Spec) *sandbox {
		s := startSandbox(t, b, spec)
		if used[s.handle.id] {
			t.Errorf("container %s is used twice", s.handle.id)
		}
		used[s.handle.id] = true
		return s
	}
	use(testSpec()).Close()
	waitIdle(t, b, 2)
	_, before := d.count()
	s := use(testSpec())
	if r, err := s.Exec(t.Context(), backends.Command{Args: []string{"spec"}}, backends.Streams{}); err != nil || r.Ended != backends.EndedOK {
		t.Error(r, err)
	}
	if s.handle.id == "" || len(used) != 2 {
		t.Error("the first was used again")
	}
	s.Close()
	waitIdle(t, b, 2)
	if _, after := d.count(); after != before+1 {
		t.Errorf("%d containers were made for one run, besides the waiting ones", after-before)
	}

	t.Run("another shape", func(t *testing.T) {
		for _, change := range []func(*backends.Spec){
			func(s *backends.Spec) { s.Limits.RAM = 64 << 20 },
			func(s *backends.Spec) { s.Language = "python" },
			func(s *backends.Spec) { s.GPUs = []string{"all"} },
			func(s *backends.Spec) { s.Trust = []byte("x") },
			func(s *backends.Spec) { s.Mounts = []backends.Mount{{Host: t.TempDir(), Inside: "/data"}} },
		} {
			waiting := idleInits(b)
			spec := testSpec()
			change(&spec)
			s := use(spec)
			if waiting[s.handle] {
				t.Errorf("%+v was started in a container that was not made for it", spec)
			}
			s.Close()
		}
	})
	t.Run("time is not a shape", func(t *testing.T) {
		spec := testSpec()
		spec.Limits.Wall, spec.Keep = time.Minute, true
		waitIdle(t, b, 6) // three shapes by now
		_, before := d.count()
		use(spec).Close()
		waitIdle(t, b, 6)
		if _, after := d.count(); after != before+1 {
			t.Errorf("%d containers were made", after-before)
		}
	})
	t.Run("dead ones", func(t *testing.T) {
		dead := idleInits(b)
		for h := range dead {
			d.Remove(t.Context(), h.id)
		}
		hosttest.Until(t, "the dead ones are replaced", func() bool {
			now := idleInits(b)
			return len(now) == len(dead) && !slices.ContainsFunc(slices.Collect(maps.Keys(now)), func(h *initHandle) bool { return dead[h] })
		})
		use(testSpec()).Close()
	})
	t.Run("stopped ones", func(t *testing.T) {
		waitIdle(t, b, 6)
		d.mu.Lock()
		for _, p := range d.all {
			p.cmd.Process.Signal(syscall.SIGSTOP)
		}
		d.mu.Unlock()
		use(testSpec()).Close() // otherwise it waits for one that does not answer
	})
	t.Run("another image of the same name", func(t *testing.T) {
		d.mu.Lock()
		d.images["shell:1"] = Image{ID: "sha256:newer"}
		d.mu.Unlock()
		s := use(testSpec())
		if s.handle.plan.image.ID != "sha256:newer" {
			t.Error("the program runs in an image that is not the named one any more")
		}
		s.Close()
	})
}

// TestBuckets requests more shapes than the pool has keys.
func TestBuckets(t *testing.T) {
	d, c := newDouble(), config(t)
	c.Ahead = 1
	b := New(d, c)
	defer closeAndCheck(t, b, d)
	for i := range 2 * maxKeys {
		spec := testSpec()
		spec.Limits.RAM = int64(i+1) << 26
		startSandbox(t, b, spec).Close()
		waitIdle(t, b, min(i+1, maxKeys))
	}
	spec := testSpec()
	spec.Limits.RAM = 2 * maxKeys << 26
	if h, _ := b.pool.LeaseItem(poolKey{"shell", "sha256:shell",
		func() backends.Limits { l := spec.Limits.WithDefaults(); l.Wall = 0; return l }()}); h == nil {
		t.Error("the last shape was given up")
	} else {
		b.removeLater(h)
	}
}

// TestPoolFails has idle containers fail to start: no error is reported, and no container is left.
func TestPoolFails(t *testing.T) {
	d, c := newDouble(), config(t)
	c.Ahead = 3
	b := New(d, c)
	d.orders = []string{"", "fail"}
	startSandbox(t, b, testSpec()).Close()
	hosttest.Until(t, "one has failed", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.orders) == 0
	})
	closeAndCheck(t, b, d)
}

func TestPools(t *testing.T) {
	d, c := newDouble(), config(t)
	c.Ahead = 2
	b := New(d, c)
	defer closeAndCheck(t, b, d)
	program := &backends.Command{Args: []string{"spec"}, Env: []string{string(make([]byte, 8<<20))}} // too long for the announcement
	run := func(change func(*backends.Spec), warm bool, cold string) {
		t.Helper()
		spec := testSpec()
		spec.Program = program
		if change != nil {
			change(&spec)
		}
		s := startSandbox(t, b, spec)
		defer s.Close()
		r, err := s.Exec(t.Context(), backends.Command{Args: program.Args}, backends.Streams{})
		if err != nil || r.Warm != warm || r.Cold != cold {
			t.Errorf("got %v, warm %v, cold %q; want warm %v, cold %q", err, r.Warm, r.Cold, warm, cold)
		}
	}
	run(nil, false, "no idle sandbox")
	waitIdle(t, b, 2)
	run(nil, true, "")
	run(func(s *backends.Spec) { s.Trust = []byte("x") }, false, "it trusts a certificate")
	run(func(s *backends.Spec) { s.Mounts = []backends.Mount{{Host: t.TempDir(), Inside: "/data"}} }, false, "host directories are mounted")
	startSandbox(t, b, testSpec()).Close() // an unannounced program is not counted
	waitIdle(t, b, 2)
	want := []backends.Pool{{Language: testSpec().Language, RAM: testSpec().Limits.WithDefaults().RAM, Ready: 2, Hits: 1, Misses: 3,
		Cold: map[string]int64{"no idle sandbox": 1, "it trusts a certificate": 1, "host directories are mounted": 1}}}
	got := b.Pools()
	for i := range got {
		if got[i].Memory <= 0 {
			t.Errorf("inits that wait hold %d bytes", got[i].Memory)
		}
		got[i].Memory = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}
