package container

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
	"github.com/sandboxmcp/sandboxmcp/backends/pool"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// Backend runs programs in containers of one engine. It implements [backends.Backend].
type Backend struct {
	engine  Engine
	config  Config
	asking  chan struct{} // semaphore: held while querying the engine
	known   *engineState  // the result of the query
	pool    *pool.Pool[poolKey, *initHandle]
	images  sync.Map      // namedImage by language, from the last lookup
	pulling chan struct{} // semaphore: held by a fetch of an image
	probing chan struct{} // semaphore: held by a probe
	probes  lazy.Cache[backends.Probe]
	pace    call.Pace // bounds the output of all containers together

	ctx    context.Context // ends when Close begins
	cancel context.CancelFunc
	once   sync.Once // of Close
	closed error

	mu          sync.Mutex
	finished    bool
	work        sync.WaitGroup // calls that use the engine
	running     map[*sandbox]struct{}
	plans       map[poolKey]*plan // for idle containers
	removeErr   error             // of the first failed background removal
	removing    int               // containers that are being removed
	lastRemoved time.Time         // when the last removal ended
}

var errClosed = errors.New("the backend is closed")

// New returns the backend. It does not contact the engine before Probe, Start or Warm.
func New(e Engine, c Config) *Backend {
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	b := &Backend{engine: e, config: c, running: map[*sandbox]struct{}{}}
	b.asking, b.pulling, b.probing = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.plans, b.pool = map[poolKey]*plan{}, b.newPool()
	return b
}

// Name implements [backends.Backend].
func (b *Backend) Name() string { return b.engine.Name() }

// Promises implements [backends.Backend].
func (b *Backend) Promises(profile string) []string {
	if profile == "" || profile == hardened {
		return backends.EngineLayers
	}
	return nil
}

// hardened is the only profile, and also the default "".
const hardened = "hardened"

// Warm begins, in the background, the work that the next Start will need.
func (b *Backend) Warm() {
	if done, err := b.keepOpen(); err == nil {
		go func() {
			defer done()
			_, _ = b.engineState(b.ctx) // Start reports an error again
		}()
	}
}

// keepOpen keeps the engine open until done is called.
func (b *Backend) keepOpen() (done func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished {
		return nil, errClosed
	}
	b.work.Add(1)
	return b.work.Done, nil
}

// removeLater removes a container without running programs in the background.
func (b *Backend) removeLater(h *initHandle) {
	b.countRemovals(1)
	b.work.Go(func() { // until then h belongs to the backend
		defer b.countRemovals(-1)
		h.Close()
	})
}

// countRemovals adds n to the containers in removal, and records the time.
func (b *Backend) countRemovals(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removing += n
	b.lastRemoved = time.Now()
}

// recount bounds the time in which an engine notices the room of a removed container.
const recount = 5 * time.Second

// makeRoom removes idle containers in favour of a requested one, and waits briefly. It reports whether this server
// expects the engine to have room.
func (b *Backend) makeRoom(ctx context.Context) bool {
	if b.pool.Drop() > 0 {
		b.countRemovals(0) // records that the removal begins
	}
	b.mu.Lock()
	room := b.removing > 0 || time.Since(b.lastRemoved) < recount
	b.mu.Unlock()
	return room && engine.Pause(ctx, 50*time.Millisecond)
}

// withBackend returns a context that ends with ctx or when the backend is closed.
func (b *Backend) withBackend(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.ctx, func() { cancel(errClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// CanMount implements [backends.Backend]: an engine on another machine can't mount directories of this one.
func (b *Backend) CanMount(ctx context.Context) error {
	done, err := b.keepOpen()
	if err != nil {
		return err
	}
	defer done()
	s, err := b.engineState(ctx)
	if err != nil {
		return err
	}
	return s.canMount(b.Name())
}

// Pools implements [backends.Backend]. Memory counts idle inits whose processes are visible here.
func (b *Backend) Pools() []backends.Pool { return b.pool.List() }

// Close implements [backends.Backend]. It returns when the engine has removed all containers.
func (b *Backend) Close() error {
	b.once.Do(func() { b.closed = b.close() })
	return b.closed
}

func (b *Backend) close() error {
	b.mu.Lock()
	b.finished = true
	open := slices.Collect(maps.Keys(b.running))
	b.mu.Unlock()
	b.cancel()
	errs := make([]error, len(open))
	var closing sync.WaitGroup
	for i, s := range open {
		closing.Go(func() { errs[i] = s.Close() })
	}
	b.pool.Close()
	closing.Wait()
	b.work.Wait()
	if s := b.known; s != nil { // no container is left, so the lock can be released
		s.instance.close()
	}
	errs = append(errs, b.removeErr)
	if err := b.engine.Close(); err != nil {
		errs = append(errs, fmt.Errorf("close %s: %w", b.Name(), err))
	}
	return errors.Join(errs...)
}

var _ backends.Backend = (*Backend)(nil)

// engineState holds the facts about the engine and this server that all containers of a backend share.
type engineState struct {
	Info
	binary   *initBinary // nil if containers include it
	instance *serverLock
	us       serverUser // this server's user
	attach   bool       // use attached streams, and mount nothing of this host
}

// engineState connects to the engine, checks the init binary and takes the server's lock, once. It then removes
// leftovers of killed servers in the background.
func (b *Backend) engineState(ctx context.Context) (*engineState, error) {
	select {
	case b.asking <- struct{}{}:
		defer func() { <-b.asking }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if b.known != nil {
		return b.known, nil
	}
	info, err := b.engine.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	s := &engineState{Info: info, us: currentUser(), attach: b.config.Attach || !info.Local || info.SELinux}
	if !info.HasInit {
		if s.binary, err = findBinary(b.config.Binary, info.Arch); err != nil {
			return nil, err
		}
	}
	if s.instance, err = newServerLock(b.config.StateDir); err != nil {
		return nil, fmt.Errorf("lock the state directory %s: %w", b.config.StateDir, err)
	}
	b.known = s
	if done, err := b.keepOpen(); err == nil {
		go func() {
			defer done()
			b.sweep(b.ctx, s)
		}()
	}
	return s, nil
}
