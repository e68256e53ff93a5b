package container

import (
	"context"
	"slices"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// pool holds idle containers, which were started ahead: their inits have greeted and wait for a sandbox to build. Each
// is for one sandbox; a container that ends before is dropped.
type pool struct {
	mu       sync.Mutex
	closed   bool
	buckets  map[poolKey]*bucket
	counters backends.PoolCounters
	images   sync.Map // namedImage by language, from the last lookup
	uses     int      // a clock
}

// namedImage is an image with its name in results.
type namedImage struct {
	image Image
	title string
}

// bucket holds the idle containers of one pool key.
type bucket struct {
	idle    []*initHandle
	used    int // value of pool.uses at the last request
	filling bool
}

// maxBuckets is how many pool keys have idle containers at one time: as many as languages.
const maxBuckets = 4

// take removes and returns an idle container, nil if there is none.
func (k *pool) take(of poolKey) *initHandle {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.buckets[of]
	if s == nil || len(s.idle) == 0 {
		return nil
	}
	h := s.idle[0]
	s.idle = s.idle[1:]
	return h
}

// put adds an idle container, unless its bucket was evicted.
func (k *pool) put(of poolKey, h *initHandle) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.buckets[of]
	if k.closed || s == nil {
		return false
	}
	s.idle = append(s.idle, h)
	return true
}

// drop removes an idle container, and reports whether it was still there.
func (k *pool) drop(h *initHandle) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.buckets {
		if i := slices.Index(s.idle, h); i >= 0 {
			s.idle = slices.Delete(s.idle, i, i+1)
			return true
		}
	}
	return false
}

// reserve records a request for a key and returns how many containers to start, 0 if a refill is under way. The key
// that was not requested for longest is evicted.
func (k *pool) reserve(of poolKey, ahead int) (missing int, evicted []*initHandle) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || ahead <= 0 {
		return 0, nil
	}
	k.uses++
	s := k.buckets[of]
	if s == nil {
		s = &bucket{}
		k.buckets[of] = s
	}
	s.used = k.uses
	if len(k.buckets) > maxBuckets {
		var oldest poolKey
		for other, o := range k.buckets {
			if c := k.buckets[oldest]; c == nil || o.used < c.used {
				oldest = other
			}
		}
		evicted = k.buckets[oldest].idle
		delete(k.buckets, oldest)
	}
	missing = max(0, ahead-len(s.idle))
	if s.filling {
		missing = 0
	} else {
		s.filling = missing > 0
	}
	return missing, evicted
}

// close returns all idle containers, and takes no more.
func (k *pool) close() (idle []*initHandle) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.buckets {
		idle = append(idle, s.idle...)
	}
	k.closed, k.buckets = true, nil
	return idle
}

// refill starts, in the background, the containers that are missing from a plan's bucket.
func (b *Backend) refill(p *plan) {
	of := p.poolKey()
	missing, unwanted := b.pool.reserve(of, b.config.Ahead)
	for _, h := range unwanted {
		b.removeLater(h)
	}
	if missing == 0 {
		return
	}
	done, err := b.use()
	if err != nil {
		return
	}
	go func() {
		defer done()
		for started := true; missing > 0 && started; missing-- {
			next := *p
			next.user = p.unprivileged()
			started = b.spawn(b.ctx, of, &next) // the next Start will say why not, if it fails likewise
		}
		b.pool.mu.Lock()
		defer b.pool.mu.Unlock()
		if s := b.pool.buckets[of]; s != nil {
			s.filling = false
		}
	}()
}

// spawn starts one container and adds it to the pool.
func (b *Backend) spawn(ctx context.Context, of poolKey, p *plan) bool {
	h, err := b.launch(ctx, p, "", false)
	if err != nil {
		return false
	}
	if h.conn.Facts().Runtime.Path == "" || h.conn.Prepare(p.spec) != nil || !b.pool.put(of, h) {
		b.removeLater(h)
		return false
	}
	go func() {
		select {
		case <-h.conn.Done():
			if b.pool.drop(h) {
				b.removeLater(h)
			}
		case <-b.ctx.Done(): // Close has it removed
		}
	}()
	return true
}

// countProgram counts a program, if there is one, that found an idle container, or the reason why it did not.
func (k *pool) countProgram(spec backends.Spec, cold string) {
	if spec.Program == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.counters.Of(spec.Language, spec.Limits.WithDefaults().RAM)
	if cold == "" {
		p.Hits++
		return
	}
	p.Miss(cold)
}

// pools returns the counters, with the containers that are idle now.
func (k *pool) pools() []backends.Pool {
	k.mu.Lock()
	defer k.mu.Unlock()
	var ready []backends.Pool
	for of, s := range k.buckets {
		one := backends.Pool{Language: of.language, RAM: of.limits.RAM, Ready: len(s.idle)}
		for _, h := range s.idle {
			one.Memory += h.peer.memory()
		}
		ready = append(ready, one)
	}
	return k.counters.Pools(ready)
}
