package warm

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/pool"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/backends/process/templates"
)

// New returns the backend. Its Close closes core, too. It starts no process before Start or Warm.
func New(core *process.Backend, c Config) *Backend {
	if core.Inside() {
		c.Max = 1 // for the container's only program
	}
	b := &Backend{
		Backend:   core,
		active:    c.Ahead > 0 || c.Max > 0,
		pooled:    c.Max > 0,
		spares:    Spares[*process.Init]{Enough: c.Ahead, Bound: core.WithDeadline},
		templates: templates.New[*process.Template](templates.Limits{Each: runtime.NumCPU(), PauseFirst: time.Minute, PauseMax: time.Minute}),
		zygotes: templates.New[*process.Template](templates.Limits{
			Each: 1, All: maxZygotes, Uses: maxForks, Age: maxZygoteAge, PauseFirst: time.Second, PauseMax: 10 * time.Minute,
		}),
		compiled: map[string][]byte{},
	}
	b.pool = pool.New(pool.Config[poolKey, *sandbox]{
		Max: c.Max, Memory: cmp.Or(c.Memory, 128<<20), Idle: cmp.Or(c.Idle, 5*time.Minute), Once: core.Inside(),
		Make: b.newIdle, Tidy: b.zygotes.Tidy,
	})
	return b
}

// Warm begins, in the background, the work that the next Start will need, for a caller that has other work to do
// first. It must not be called after Start.
func (b *Backend) Warm() {
	if b.Inside() {
		b.EnsureLauncher(context.Background())
		return
	}
	b.active = true
	var system runtimes.Runtime // the system's own, which shows no more paths
	b.spares.Fill(rootKey(system), max(1, b.spares.Enough), func(ctx context.Context) (*process.Init, error) {
		var beside sync.WaitGroup
		defer beside.Wait()
		beside.Go(b.FindLimits)
		b.EnsureLauncher(ctx) // it starts while the root is planned
		return b.spawnForRuntime(ctx, system)
	})
}

// Prepare puts an idle sandbox for spec's program into the pool if possible, and returns when it is idle. It is for
// a container's only program: see process.Config.Inside.
func (b *Backend) Prepare(spec backends.Spec) {
	if r, why := poolKeyOf(spec); why == "" {
		b.pool.Prepare(r)
	}
}

// Pools implements [backends.Backend].
func (b *Backend) Pools() []backends.Pool {
	if !b.active {
		return nil
	}
	return b.pool.List()
}

// Close implements [backends.Backend].
func (b *Backend) Close() error {
	b.closing.Do(func() {
		b.pool.Close()
		b.CloseSandboxes()
		b.spares.Close()
		b.templates.Close()
		b.zygotes.Close()
	})
	return b.Backend.Close()
}

var _ backends.Backend = (*Backend)(nil)

// Start implements [backends.Backend].
func (b *Backend) Start(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	if !b.active {
		return b.Backend.Start(ctx, spec)
	}
	s, err := b.start(ctx, spec)
	if err == nil {
		err = b.Register(s.Sandbox)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// start returns an idle sandbox for a program, or a new one.
func (b *Backend) start(ctx context.Context, spec backends.Spec) (s *sandbox, err error) {
	var r poolKey
	var why string // why no sandbox was idle
	if b.pooled && spec.Program != nil {
		if r, why = poolKeyOf(spec); why == "" {
			s, why = b.pool.LeaseItem(r)
		}
	}
	if s == nil {
		if b.Inside() {
			b.pool.Clear() // otherwise the program would see the process that was idle for another
		}
		if s, err = process.InTime(ctx, b.Backend, func(ctx context.Context) (*sandbox, error) { return b.startFresh(ctx, spec, r, why) }); err != nil {
			return nil, err
		}
	}
	if s.idle != nil {
		s.idle.program = spec.Program
		b.pool.Record(s.Runtime().Name, s.ram, s.idle.cold)
	}
	return s, nil
}
