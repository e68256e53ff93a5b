package process

import (
	"cmp"
	"context"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/backends/process/seccomp"
	"github.com/sandboxmcp/sandboxmcp/backends/process/share"
	"github.com/sandboxmcp/sandboxmcp/backends/process/templates"
)

// Backend runs programs as hardened processes. It implements [backends.Backend].
type Backend struct {
	config      Config
	root        bool        // started by root: each sandbox has an unprivileged user of its own
	landlockABI int         // 0 on a kernel without Landlock
	uids        share.Users // of sandboxes, if root is true
	filters     seccomp.Filters
	cgroups     cgroup.Groups
	launchers   *templates.Set[*Template]
	teardowns   teardowns
	mounts      mountChanges
	cpus        share.CPUs
	lastVisible lastVisible
	overlays    overlays

	mu       sync.Mutex
	found    map[string]runtimes.Runtime // interpreters by language
	running  map[*Sandbox]struct{}
	finished bool
	closing  sync.Once
	workLock *os.File // of the directory for workspaces that can't be mounted, once it exists
}

// New returns the backend. It starts no process, and changes nothing on the host, before Start.
func New(c Config) *Backend {
	c.StartTimeout, c.KillTimeout = cmp.Or(c.StartTimeout, startTimeout), cmp.Or(c.KillTimeout, killTimeout)
	b := &Backend{
		config:  c,
		root:    isRoot(),
		found:   map[string]runtimes.Runtime{},
		running: map[*Sandbox]struct{}{},

		launchers: templates.New[*Template](templates.Limits{Each: runtime.NumCPU()}), // up to one per concurrent start
		teardowns: newTeardowns(),
	}
	b.cgroups.Delegate, b.cgroups.Inside, b.cgroups.Name = c.Delegate, c.Inside, cgroup.NewName()
	maps.Copy(b.found, c.Runtimes)
	b.landlockABI, _ = ll.LandlockGetABIVersion()
	return b
}

// FindLimits finds the cgroup and compiles the seccomp filter that most sandboxes need. Start reports failures of
// these.
func (b *Backend) FindLimits() {
	b.cgroups.FindBase()
	_, _ = b.filters.ForKind(seccomp.Kind{Namespaces: true, Affinity: b.cgroups.Why == ""})
}

// Inside reports whether sandboxes are made in a container: see Config.Inside.
func (b *Backend) Inside() bool { return b.config.Inside }

// isRoot reports whether this process is the host's root, and not the root of a user namespace, which has no other
// users to switch to.
func isRoot() bool {
	all, _ := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(all))
	return os.Geteuid() == 0 && slices.Equal(fields, []string{"0", "0", "4294967295"})
}

// Name implements [backends.Backend].
func (b *Backend) Name() string { return "process" }

// Promises implements [backends.Backend].
func (b *Backend) Promises(profile string) []string { return promises(profile) }

// CanMount implements [backends.Backend].
func (b *Backend) CanMount(context.Context) error { return nil }

// Pools implements [backends.Backend].
func (b *Backend) Pools() []backends.Pool { return nil }

// teardowns removes sandboxes, a few at a time: the kernel dismantles namespaces, mounts and filters under locks of
// the whole host, and thousands at once have blocked everything else.
type teardowns struct {
	room chan struct{}
	all  sync.WaitGroup
}

// newTeardowns returns teardowns with room for two at a time per CPU.
func newTeardowns() teardowns { return teardowns{room: make(chan struct{}, 2*runtime.NumCPU())} }

// run removes a sandbox, in the background if background is true and not too many are in progress.
func (e *teardowns) run(background bool, end func()) {
	remove := func() {
		defer func() { <-e.room }()
		end()
	}
	if background {
		select {
		case e.room <- struct{}{}:
			e.all.Go(remove)
			return
		default:
		}
	}
	e.room <- struct{}{}
	remove()
}

// mountChanges counts the changes of this process's mounts: a process that has copied them earlier would show the
// files below a later mount.
type mountChanges struct {
	mu sync.Mutex
	fd int // 0 before the first count
	n  uint64
}

// count returns the number of changes noticed so far. It polls for them by proc_pid_mountinfo(5), bypassing the Go
// runtime, which would consume them.
func (m *mountChanges) count() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fd == 0 {
		fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			m.n++ // a change may have been missed
			return m.n
		}
		m.fd = fd
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLPRI}}, 0); n > 0 || err != nil {
		m.n++
	}
	return m.n
}

func (m *mountChanges) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fd != 0 {
		unix.Close(m.fd)
		m.fd = 0
	}
}

// WithDeadline returns a context with the deadline of a start.
func (b *Backend) WithDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, b.config.StartTimeout, &lateError{b.config.StartTimeout})
}
