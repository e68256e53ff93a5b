package process

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

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
	root        bool        // started by root: each sandbox runs under an unprivileged uid of its own
	landlockABI int         // 0 where the kernel has no Landlock
	uids        share.Users // of sandboxes, if root is true
	filters     seccomp.Filters
	cgroups     cgroup.Groups
	launchers   *templates.Set[*Template]
	teardowns   teardowns
	mounts      mountChanges
	cpus        share.CPUs
	lastVisible lastVisible

	mu       sync.Mutex
	found    map[string]runtimes.Runtime // interpreters by language
	running  map[*Sandbox]struct{}
	finished bool
	closing  sync.Once
	workLock *os.File // of the directory for workspaces that can't be mounted, once it exists
}

// New returns the backend. It starts nothing, and changes nothing on the host, before Start.
func New(c Config) *Backend {
	c.StartTimeout, c.KillTimeout = cmp.Or(c.StartTimeout, startTimeout), cmp.Or(c.KillTimeout, killTimeout)
	b := &Backend{
		config:  c,
		root:    isRoot(),
		found:   map[string]runtimes.Runtime{},
		running: map[*Sandbox]struct{}{},

		launchers: newLaunchers(),
		teardowns: newTeardowns(),
	}
	b.cgroups.Delegate, b.cgroups.Inside, b.cgroups.Name = c.Delegate, c.Inside, cgroup.NewName()
	maps.Copy(b.found, c.Runtimes)
	b.landlockABI, _ = ll.LandlockGetABIVersion()
	return b
}

// FindLimits finds the cgroup and compiles the filter of system calls that most sandboxes need. A failure shows there.
func (b *Backend) FindLimits() {
	b.cgroups.Find()
	_, _ = b.filters.Of(seccomp.Kind{Namespaces: true, Affinity: b.cgroups.Why == ""})
}

// Inside reports whether sandboxes are made in a container, see Config.Inside.
func (b *Backend) Inside() bool { return b.config.Inside }

// isRoot reports whether this process is the host's root, and not the root of a user namespace, which has no other users to
// become.
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

// Close implements [backends.Backend].
func (b *Backend) Close() error {
	b.closing.Do(func() {
		b.CloseSandboxes()
		b.launchers.Close()
		b.cgroups.Close()
		b.mounts.close()
		b.closeWork()
		b.uids.Close()
	})
	return nil
}

// CloseSandboxes ends all sandboxes, and has Start fail from now on.
func (b *Backend) CloseSandboxes() {
	b.mu.Lock()
	b.finished = true
	open := slices.Collect(maps.Keys(b.running))
	b.mu.Unlock()
	for _, s := range open {
		s.Close()
	}
	b.teardowns.all.Wait()
}

var _ backends.Backend = (*Backend)(nil)

// Start implements [backends.Backend].
func (b *Backend) Start(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	s, err := InTime(ctx, b, func(ctx context.Context) (*Sandbox, error) {
		s, err := b.NewSandbox(ctx, spec)
		if err == nil {
			err = s.LaunchOrClose(ctx, b.Spawn)
		}
		return s, err
	})
	if err == nil {
		err = b.Register(s)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Register has Close end a sandbox; afterwards, Register itself does.
func (b *Backend) Register(s *Sandbox) error {
	b.mu.Lock()
	finished := b.finished
	b.running[s] = struct{}{}
	b.mu.Unlock()
	if finished {
		s.Close()
		return templates.ErrClosed
	}
	return nil
}

// Probe implements [backends.Backend]. It starts a sandbox and closes it: only that shows which layers the host gives.
func (b *Backend) Probe(ctx context.Context, spec backends.Spec) (backends.Probe, error) {
	p := backends.Probe{Backend: b.Name()}
	for _, language := range backends.Languages {
		p.Runtimes = append(p.Runtimes, b.describe(ctx, language, true))
	}
	result, err := b.try(ctx, spec)
	if err != nil {
		p.Why, p.Layers = backends.Why(err), backends.NotTried(err)
		return p, nil
	}
	p.Layers, p.Usable = backends.Tried(result.Contained.Layers, remedies), true
	return p, nil
}

// try runs the shell's no-op in a sandbox.
func (b *Backend) try(ctx context.Context, spec backends.Spec) (backends.Result, error) {
	spec.ID, spec.Language = "probe", "shell"
	s, err := b.Start(ctx, spec)
	if err != nil {
		return backends.Result{}, err
	}
	defer s.Close()
	return s.Exec(ctx, backends.Command{Args: []string{"bash", "-c", ":"}}, backends.Streams{})
}
