package container

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/pool"
)

// namedImage is an image with its name in results.
type namedImage struct {
	image Image
	title string
}

// maxKeys is the number of pool keys with idle containers at one time: one per language.
const maxKeys = 4

// newPool returns a pool of prestarted containers: their inits have sent their greeting and wait for a sandbox to
// build. Each is for one sandbox; a container that ends early is dropped.
func (b *Backend) newPool() *pool.Pool[poolKey, *initHandle] {
	return pool.New(pool.Config[poolKey, *initHandle]{
		Max: maxKeys * b.config.Ahead, Memory: math.MaxInt64, Idle: 24 * time.Hour, Keys: maxKeys, Each: b.config.Ahead, Delay: refillAfter,
		Make: b.spawn,
	})
}

// Kind implements [pool.Key].
func (k poolKey) Kind() (language string, ram int64) { return k.language, k.limits.RAM }

// leaseIdle removes and returns an idle container for a plan, or the reason why there is none. The pool creates the
// next ones for plans like this.
func (b *Backend) leaseIdle(p *plan) (*initHandle, string) {
	next := *p
	b.mu.Lock()
	if len(b.plans) > 2*maxKeys {
		clear(b.plans)
	}
	b.plans[p.poolKey()] = &next
	b.mu.Unlock()
	return b.pool.LeaseItem(p.poolKey())
}

// spawn starts one container for the pool.
func (b *Backend) spawn(ctx context.Context, of poolKey) (h *initHandle, err error) {
	b.mu.Lock()
	last := b.plans[of]
	b.mu.Unlock()
	if last == nil {
		return nil, errors.New("it was not requested recently")
	}
	p := *last
	p.user, p.idle = p.unprivileged(), true
	if h, err = b.launch(ctx, &p, "", false); err != nil {
		return nil, err
	}
	if err = h.conn.Prepare(p.spec); h.conn.Facts().Runtime.Path == "" {
		err = errors.New("the image has no " + of.language)
	}
	if shared, is := b.engine.(Shared); is && err == nil {
		err = shared.Offer(ctx, h.id)
	}
	if err != nil {
		b.removeLater(h)
		return nil, err
	}
	return h, nil
}

// NotifyEnd implements [pool.Item], as do the following methods.
func (h *initHandle) NotifyEnd(ended func()) {
	go func() {
		<-h.conn.Done()
		ended()
	}()
}

// Lease reports whether the init is still alive.
func (h *initHandle) Lease() bool {
	select {
	case <-h.conn.Done():
		return false
	default:
		return true
	}
}

// Memory returns PID 1's private memory, if it can be read here.
func (h *initHandle) Memory() int64 { return h.peer.memory() }

// Close removes the container. Backend.Close reports errors of the removal.
func (h *initHandle) Close() error {
	err := h.remove()
	if err != nil {
		h.backend.mu.Lock()
		defer h.backend.mu.Unlock()
		h.backend.removeErr = cmp.Or(h.backend.removeErr, err)
	}
	return err
}

// countProgram counts an announced program: a hit in an idle container, or a miss with its reason.
func (b *Backend) countProgram(spec backends.Spec, cold string) {
	if spec.Program != nil {
		b.pool.Record(spec.Language, spec.Limits.WithDefaults().RAM, cold)
	}
}
