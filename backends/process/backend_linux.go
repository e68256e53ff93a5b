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
	"github.com/sandboxmcp/sandboxmcp/backends/process/warm"
)

// Backend runs programs as hardened processes. It implements [backends.Backend].
type Backend struct {
	config      Config
	root        bool // started by root: each sandbox runs under an unprivileged uid of its own
	landlockABI int  // 0 where the kernel has no Landlock
	uids        uids // of sandboxes, if root is true
	filters     seccomp.Filters
	cgroups     cgroup.Groups
	launchers   *warm.Templates[*template]
	preSpawned  *preSpawned // nil if each sandbox is made on request
	teardowns   teardowns
	mounts      mountChanges
	cpus        cpuShare
	lastVisible lastVisible

	mu       sync.Mutex
	found    map[string]runtimes.Runtime // interpreters by language
	running  map[*sandbox]struct{}
	finished bool
	workLock *os.File // of the directory for workspaces that can't be mounted, once it exists
}

// New returns the backend. It starts nothing, and changes nothing on the host, before Start or Warm.
func New(c Config) *Backend {
	c.StartTimeout, c.KillTimeout = cmp.Or(c.StartTimeout, startTimeout), cmp.Or(c.KillTimeout, killTimeout)
	if c.Inside {
		c.Pool.Max = 1 // for the one program of the container
	}
	b := &Backend{
		config:  c,
		root:    isRoot(),
		found:   map[string]runtimes.Runtime{},
		running: map[*sandbox]struct{}{},

		launchers: newLaunchers(),
		teardowns: newTeardowns(),
	}
	b.cgroups.Delegate, b.cgroups.Inside, b.cgroups.Name = c.Delegate, c.Inside, cgroup.NewName()
	if c.Ahead > 0 || c.Pool.Max > 0 {
		b.preSpawned = newPreSpawned(b)
	}
	b.landlockABI, _ = ll.LandlockGetABIVersion()
	return b
}

// Warm begins, in the background, the work that the next Start will need, for a program that has other work to do first. It
// must not be called after Start.
func (b *Backend) Warm() {
	if b.config.Inside {
		b.warmLauncher(context.Background())
		return
	}
	if b.preSpawned == nil {
		b.preSpawned = newPreSpawned(b)
	}
	var system runtimes.Runtime // the system's own, which shows nothing more
	b.preSpawned.spares.Fill(rootKey(system), max(1, b.config.Ahead), func(ctx context.Context) (*initHandle, error) {
		var beside sync.WaitGroup
		defer beside.Wait()
		beside.Go(func() {
			b.cgroups.Find()
			// What goes wrong with it shows where it is needed.
			_, _ = b.filters.Of(seccomp.Kind{Namespaces: true, Affinity: b.cgroups.Why == ""})
		})
		b.warmLauncher(ctx) // it starts while the root is planned
		return b.preSpawned.spawnForRuntime(ctx, system)
	})
}

// Prepare puts an idle sandbox for spec's program into the pool if possible, and returns when it is there. It is for the
// one program of a container: see Config.Inside.
func (b *Backend) Prepare(spec backends.Spec) {
	if r, why := poolKeyOf(spec); why == "" {
		b.preSpawned.pool.Prepare(r)
	}
}

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
func (b *Backend) Pools() []backends.Pool {
	if b.preSpawned == nil {
		return nil
	}
	return b.preSpawned.pool.List()
}

// Close implements [backends.Backend].
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.finished {
		b.mu.Unlock()
		return nil
	}
	b.finished = true
	open := slices.Collect(maps.Keys(b.running))
	b.mu.Unlock()
	if b.preSpawned != nil {
		b.preSpawned.pool.Close()
	}
	for _, s := range open {
		s.Close()
	}
	b.teardowns.all.Wait()
	if b.preSpawned != nil {
		b.preSpawned.spares.Close()
		b.preSpawned.templates.Close()
		b.preSpawned.zygotes.Close()
	}
	b.launchers.Close()
	b.cgroups.Close()
	b.mounts.close()
	b.closeWork()
	b.uids.close()
	return nil
}

var _ backends.Backend = (*Backend)(nil)

// Start implements [backends.Backend].
func (b *Backend) Start(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	var s *sandbox
	var err error
	if b.preSpawned != nil {
		s, err = b.preSpawned.start(ctx, spec)
	} else {
		s, err = b.inTime(ctx, spec)
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	finished := b.finished
	b.running[s] = struct{}{}
	b.mu.Unlock()
	if finished {
		s.Close()
		return nil, warm.ErrClosed
	}
	return s, nil
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
