package process

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/backendtest"
	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// needProfile skips a test of the profile "landlock" on kernels older than 6.2.
func needProfile(t *testing.T, profile string) {
	t.Helper()
	if abi := newBackend(t, Config{}).landlockABI; profile == "landlock" && abi < truncateABI {
		hosttest.SkipMissing(t, "landlock", fmt.Sprintf("its ABI is %d here, and %d restricts truncation", abi, truncateABI))
	}
}

// newBackend returns a backend that is closed at the end of the test.
func newBackend(t testing.TB, c Config) *Backend {
	t.Helper()
	if c.StateDir == "" {
		c.StateDir = t.TempDir()
	}
	b := New(c)
	t.Cleanup(func() { b.Close() })
	return b
}

// TestContract runs the attacks that every backend must withstand, and for the profile without namespaces those
// that its layers prevent.
func TestContract(t *testing.T) {
	probe := newBackend(t, Config{})
	probe.cgroups.FindBase()
	for _, o := range []backendtest.Options{{Profile: "hardened"}, {Profile: "landlock", Layers: withoutNamespaces}} {
		o.Cgroup = probe.cgroups.HasBase()
		t.Run(o.Profile, func(t *testing.T) {
			needProfile(t, o.Profile)
			backendtest.Run(t, func(t testing.TB) backends.Backend { return New(Config{StateDir: t.TempDir()}) }, o)
		})
	}
}

// TestLimitsOfEachProcess reads the limits of a process, the only ones on a host without cgroups.
func TestLimitsOfEachProcess(t *testing.T) {
	b := newBackend(t, Config{})
	s, err := b.Start(t.Context(), backends.Spec{ID: "limits", Language: "shell", Limits: backends.Limits{Processes: 7, Disk: 32 << 20,
		Wall: 50 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out bytes.Buffer
	if _, err := s.Exec(t.Context(), backends.Command{Args: []string{"cat", "/proc/self/limits"}}, backends.Streams{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	for name, hard := range map[string]uint64{
		`processes +\S+`:  100, // 7, and the interpreter's own
		`cpu time`:        200, // the soft limit: wall time and cores bound a program that raises it
		`open files +\S+`: 4096, `core file size +\S+`: 1,
		`pending signals +\S+`: 1024, `msgqueue size +\S+`: 819200, `locked memory +\S+`: 64 << 10, `realtime priority +\S+`: 0,
	} {
		found := regexp.MustCompile(`(?m)^Max ` + name + ` +(\d+) `).FindStringSubmatch(out.String())
		if found == nil {
			t.Errorf("no limit of %s in\n%s", name, out.String())
		} else if n, err := strconv.ParseUint(found[1], 10, 64); err != nil || n > hard {
			t.Errorf("%s: %s, want at most %d", name, found[1], hard)
		}
	}
}

// TestDataLimit checks that RLIMIT_DATA is set where no cgroup bounds memory, and nowhere else.
func TestDataLimit(t *testing.T) {
	const ram = 96 << 20
	limits := backends.Limits{RAM: ram}
	for name, c := range map[string]struct {
		group *cgroup.Group
		keep  bool
		tasks uint64
		want  uint64
	}{
		"a cgroup":                {&cgroup.Group{}, false, 30, unix.RLIM_INFINITY},
		"a cgroup, of a session":  {&cgroup.Group{}, true, 30, unix.RLIM_INFINITY},
		"no cgroup":               {nil, false, 30, ram + 1<<30},
		"no cgroup, many threads": {nil, false, 300, ram + 300<<23},
		"no cgroup, of a session": {nil, true, 30, 4 << 30},
	} {
		s := &Sandbox{constraints: constraints{limits: limits, tasks: c.tasks}, profile: profile{keep: c.keep}, Init: &Init{cgroup: c.group}}
		if got := s.dataLimit(); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

// TestTeardownsPaced ends many sandboxes at once, in the foreground and background: no more are removed at a time
// than there is room for.
func TestTeardownsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTeardowns()
		var begun, running atomic.Int64
		release := make(chan struct{})
		end := func() {
			begun.Add(1)
			running.Add(1)
			<-release
			running.Add(-1)
		}
		var callers sync.WaitGroup
		peak := cap(e.room)
		for range 2 * peak {
			callers.Go(func() { e.run(true, end) })
			callers.Go(func() { e.run(false, end) })
		}
		synctest.Wait()
		if got := running.Load(); got != int64(peak) {
			t.Errorf("%d are removed at once, want %d", got, peak)
		}
		close(release)
		callers.Wait()
		e.all.Wait()
		if got := begun.Load(); got != 4*int64(peak) || len(e.room) != 0 {
			t.Errorf("%d of %d were removed, %d places are taken", got, 4*peak, len(e.room))
		}
	})
}
