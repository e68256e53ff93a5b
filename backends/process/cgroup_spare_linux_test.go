package process

import (
	"maps"
	"slices"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// spared starts a sandbox, runs a script in it, closes it and waits until it is gone. It returns its cgroup.
func spared(t *testing.T, b *Backend, l backends.Limits, script string) *cgroup {
	t.Helper()
	one, err := b.Start(t.Context(), backends.Spec{ID: "spare", Language: "shell", Limits: l})
	if err != nil {
		t.Fatal(err)
	}
	s := one.(*sandbox)
	g := s.cgroup
	if g == nil || g.v2() {
		t.Skip("only cgroup v1's are used again")
	}
	if _, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", script}}, backends.Streams{}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	b.endings.all.Wait()
	return g
}

// TestSpareIsAsGoodAsNew has the cgroup of a quiet program serve again, with nothing on its counters, and its new limits.
func TestSpareIsAsGoodAsNew(t *testing.T) {
	b := newBackend(t, Config{})
	for range 3 { // the first may be the first to read the shell's files, which are charged to it
		spared(t, b, backends.Limits{}, "printf -v x '%*s' 20000000 x")
	}
	had := slices.Clone(b.cgroups.spares.list)
	if len(had) == 0 {
		t.Fatal("no cgroup was kept")
	}
	hosttest.Until(t, "the kernel has freed what programs held in one", func() bool {
		return slices.ContainsFunc(had, func(g *cgroup) bool { return g.number("pids", "pids.current", "") == 0 && g.usage() <= mostCharged })
	})
	g, err := b.cgroups.make()
	if err != nil {
		t.Fatal(err)
	}
	defer g.giveBack()
	if !slices.Contains(had, g) {
		t.Fatal("a new cgroup was made")
	}
	if g.cpu() != 0 || g.peak() > 8<<20 { // what is still charged goes on being freed
		t.Errorf("got cpu %v, peak %d with %d in use, want none and about the same", g.cpu(), g.peak(), g.usage())
	}
	if err := g.limit(backends.Limits{RAM: 64 << 20, CPU: 0.5}, 7); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{"memory": g.number("memory", "memory.limit_in_bytes", ""), "cpu": g.number("cpu", "cpu.cfs_quota_us", ""), "pids": g.number("pids", "pids.max", "")}
	if want := map[string]int64{"memory": 64 << 20, "cpu": 50_000, "pids": 7}; !maps.Equal(got, want) {
		t.Errorf("limits: got %v, want %v", got, want)
	}
}

// TestSpoiltCgroups are not used again: what the kernel refused or held back in them would be told of the next sandbox.
func TestSpoiltCgroups(t *testing.T) {
	for _, c := range []struct {
		name, script string
		limits       backends.Limits
	}{
		{"memory refused", "head -c 100000000 /dev/zero | tail -c 100000000 | wc -c", backends.Limits{RAM: 64 << 20, Disk: 1 << 20}},
		{"processes refused", "for i in {1..30}; do sleep 0.2 & done", backends.Limits{Processes: 8}},
		{"CPU time held back", ":", backends.Limits{CPU: 0.02}}, // to start takes more than that
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBackend(t, Config{})
			hosttest.Until(t, "a cgroup in which something was refused is not kept", func() bool {
				g := spared(t, b, c.limits, c.script)
				kept := slices.Contains(b.cgroups.spares.list, g)
				if kept && g.oomKills()+g.forksRefused()+g.throttled() > 0 {
					t.Fatal("it was kept")
				}
				return !kept // else our watcher was faster than the kernel
			})
		})
	}
}
