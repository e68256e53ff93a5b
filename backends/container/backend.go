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
	asking  chan struct{} // semaphore: held while asking the engine what it is
	known   *engineState  // its answer
	pool    *pool.Pool[poolKey, *initHandle]
	images  sync.Map      // namedImage by language, from the last lookup
	pulling chan struct{} // semaphore: held by a fetch of an image
	probing chan struct{} // semaphore: held by a probe
	probes  lazy.Cache[backends.Probe]
	pace    call.Pace // of all containers' output that the engine carries

	ctx    context.Context // ends when Close begins
	cancel context.CancelFunc
	once   sync.Once // of Close
	closed error

	mu        sync.Mutex
	finished  bool
	work      sync.WaitGroup // calls that use the engine
	running   map[*sandbox]struct{}
	plans     map[poolKey]*plan // by which idle containers are made
	removeErr error             // the first of a removal in the background
	leaving   int               // containers that are being removed
	left      time.Time         // when the last one was gone
}

var errClosed = errors.New("the backend is closed")

// New returns the backend. Nothing is asked of the engine before Probe, Start or Warm.
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

// hardened is the only profile; "" selects it, too.
const hardened = "hardened"

// Warm begins, in the background, the work that the next Start will need.
func (b *Backend) Warm() {
	if done, err := b.use(); err == nil {
		go func() {
			defer done()
			_, _ = b.engineState(b.ctx) // Start reports an error again
		}()
	}
}

// use keeps the engine open until done is called.
func (b *Backend) use() (done func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished {
		return nil, errClosed
	}
	b.work.Add(1)
	return b.work.Done, nil
}

// removeLater removes a container in which nothing runs any more, in the background.
func (b *Backend) removeLater(h *initHandle) {
	b.leave(1)
	b.work.Go(func() { // which h is part of still
		defer b.leave(-1)
		h.Close()
	})
}

// leave counts containers that are being removed, and notes the time.
func (b *Backend) leave(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaving += n
	b.left = time.Now()
}

// recount is how long an engine may take to see that a container that is gone has left room.
const recount = 5 * time.Second

// makeRoom has idle containers give way to one that is needed now, and waits a little. It reports whether there will be
// room, as far as that is for this server to say.
func (b *Backend) makeRoom(ctx context.Context) bool {
	if b.pool.Drop() > 0 {
		b.leave(0) // they begin to be removed
	}
	b.mu.Lock()
	room := b.leaving > 0 || time.Since(b.left) < recount
	b.mu.Unlock()
	return room && engine.Pause(ctx, 50*time.Millisecond)
}

// withBackend returns ctx, ended also when the backend is closed.
func (b *Backend) withBackend(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.ctx, func() { cancel(errClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// CanMount implements [backends.Backend]: an engine on another machine mounts nothing of this one.
func (b *Backend) CanMount(ctx context.Context) error {
	done, err := b.use()
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

// Pools implements [backends.Backend]. Memory is that of idle inits, as far as it can be seen from here.
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
	if s := b.known; s != nil { // no container is left: other servers may see that this one has ended
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
	binary   *initBinary // nil if containers have it already
	instance *serverLock
	us       serverUser // the user of this server
	attach   bool       // use attached streams, and mount nothing of ours from this host
}

// engineState connects to the engine, checks our own binary and takes the server's lock, once. What killed servers left
// is then removed in the background.
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
		return nil, fmt.Errorf("say in %s that this server lives: %w", b.config.StateDir, err)
	}
	b.known = s
	if done, err := b.use(); err == nil {
		go func() {
			defer done()
			b.sweep(b.ctx, s)
		}()
	}
	return s, nil
}
