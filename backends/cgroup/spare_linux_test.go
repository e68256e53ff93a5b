package cgroup

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func newGroups(t *testing.T) *Groups {
	t.Helper()
	c := &Groups{Name: NewName()}
	t.Cleanup(c.Close)
	if c.FindBase(); !c.HasBase() {
		hosttest.SkipMissing(t, "cgroup", c.Why)
	}
	return c
}

// spared runs a script in a cgroup with these limits, releases the cgroup, and returns how often something was denied.
func spared(t *testing.T, c *Groups, b Bounds, script string) int64 {
	t.Helper()
	g, err := c.Create()
	if err != nil {
		t.Fatal(err)
	}
	if g.V2() {
		g.Remove()
		t.Skip("only cgroup v1's are used again")
	}
	if err := g.Limit(b); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", "read -r go; "+script)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range g.JoinFiles() {
		if err := os.WriteFile(f.Name(), []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Error(err)
		}
	}
	_, _ = io.WriteString(in, "go\n")
	_ = cmd.Wait() // it may have been killed
	hosttest.Until(t, "nobody is in the cgroup", func() bool { return g.readNumber("pids", "pids.current", "") == 0 })
	refused := g.OOMKills() + g.ForksRefused() + g.throttleCount()
	g.Release()
	return refused
}

// TestSpareIsAsGoodAsNew reuses the cgroup of a quiet program, with reset counters and new limits.
func TestSpareIsAsGoodAsNew(t *testing.T) {
	c := newGroups(t)
	usual := Bounds{Memory: 512 << 20, Sockets: 512 << 20, CPU: 1, Tasks: 50}
	for range 3 { // the first may be the first to read the shell's files, which are charged to it
		spared(t, c, usual, "printf -v x '%*s' 20000000 x")
	}
	had := slices.Clone(c.spares.list)
	if len(had) == 0 {
		t.Fatal("no cgroup was kept")
	}
	hosttest.Until(t, "the kernel has freed what programs held in one", func() bool {
		return slices.ContainsFunc(had, func(g *Group) bool { return g.readNumber("pids", "pids.current", "") == 0 && g.Usage() <= maxCharged })
	})
	g, err := c.Create()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Release()
	if !slices.Contains(had, g) {
		t.Fatal("a new cgroup was made")
	}
	if g.CPU() != 0 || g.Peak() > 8<<20 { // the kernel still frees charged memory
		t.Errorf("got cpu %v, peak %d with %d in use, want none and about the same", g.CPU(), g.Peak(), g.Usage())
	}
	if err := g.Limit(Bounds{Memory: 64 << 20, CPU: 0.5, Tasks: 7}); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{"memory": g.readNumber("memory", "memory.limit_in_bytes", ""), "cpu": g.readNumber("cpu", "cpu.cfs_quota_us", ""),
		"pids": g.readNumber("pids", "pids.max", "")}
	if want := map[string]int64{"memory": 64 << 20, "cpu": 50_000, "pids": 7}; !maps.Equal(got, want) {
		t.Errorf("limits: got %v, want %v", got, want)
	}
}

// TestSpoiltCgroups are not reused: their denials and throttling would be reported for the next program.
func TestSpoiltCgroups(t *testing.T) {
	for name, tt := range map[string]struct {
		bounds Bounds
		script string
	}{
		"memory refused":     {Bounds{Memory: 64 << 20, CPU: 1, Tasks: 50}, "head -c 100000000 /dev/zero | tail -c 100000000 | wc -c"},
		"processes refused":  {Bounds{Memory: 512 << 20, CPU: 1, Tasks: 8}, "for i in {1..30}; do sleep 0.2 & done; wait"},
		"CPU time held back": {Bounds{Memory: 512 << 20, CPU: 0.02, Tasks: 50}, "for i in {1..20000}; do :; done"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newGroups(t)
			if refused := spared(t, c, tt.bounds, tt.script); refused == 0 || len(c.spares.list) > 0 {
				t.Errorf("it was refused something %d times, and %d are kept", refused, len(c.spares.list))
			}
		})
	}
}

// TestSweepSparesTheLiving sweeps like a server in another PID namespace, where a living server's PID is unused:
// only the lock proves that it lives.
func TestSweepSparesTheLiving(t *testing.T) {
	parent := t.TempDir()
	const nobody = Prefix + "4194303.1" // above any pid_max that is likely
	living, gone := parent+"/"+nobody, parent+"/"+Prefix+"4194302.1"
	for _, dir := range []string{living, gone} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Lock(living)
	if err != nil {
		t.Fatal(err)
	}
	removeDead(parent)
	if _, err := os.Stat(living); err != nil {
		t.Errorf("a living server's directory was removed: %v", err)
	}
	if _, err := os.Stat(gone); err == nil {
		t.Error("a dead server's directory is still there")
	}
	f.Close()
	removeDead(parent)
	if _, err := os.Stat(living); err == nil {
		t.Error("the directory is still there although its server is gone")
	}
}
