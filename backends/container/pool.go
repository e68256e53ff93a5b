package container

import (
	"context"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// pool are containers that were started ahead. Their inits have greeted and wait for what they are to be.
// Each is for one sandbox, and one that ends before is forgotten.
type pool struct {
	mu       sync.Mutex
	closed   bool
	buckets  map[poolKey]*bucket
	counters backends.PoolCounters
	images   map[string]namedImage // by language, as it was found last
	uses     int                   // a clock
}

// namedImage is an image, and what it is called in results.
type namedImage struct {
	image Image
	title string
}

func (k *pool) lastImage(language string) (namedImage, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, known := k.images[language]
	return n, known
}

func (k *pool) setLastImage(language string, n namedImage) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.images[language] = n
}

// bucket has those of one shape.
type bucket struct {
	idle    []*initHandle
	used    int // when it was wanted last
	filling bool
}

// maxBuckets is how many shapes there are containers for at one time: as many as languages.
const maxBuckets = 4

// take returns one that nobody else gets, or nil.
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

// put adds one, unless its shape is not wanted any more.
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

// drop forgets one, and says whether it was still there.
func (k *pool) drop(h *initHandle) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.buckets {
		for i, other := range s.idle {
			if other == h {
				s.idle = append(s.idle[:i:i], s.idle[i+1:]...)
				return true
			}
		}
	}
	return false
}

// reserve notes that a shape was asked for, and says how many are missing, if nobody fills its shelf yet. The shape
// that was not wanted for longest makes room.
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

func (k *pool) filled(of poolKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.buckets[of]; s != nil {
		s.filling = false
	}
}

// close gives up all, for good.
func (k *pool) close() (idle []*initHandle) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.buckets {
		idle = append(idle, s.idle...)
	}
	k.closed, k.buckets = true, nil
	return idle
}

// refill starts, in the background, what is missing of a plan's shape.
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
		defer b.pool.filled(of)
		for range missing {
			if !b.spawn(b.ctx, of, p.forPool()) {
				return // the next Start will say why, if it fails likewise
			}
		}
	}()
}

// forPool is the plan of a container of the same shape, for somebody who is not known yet.
func (p *plan) forPool() *plan {
	next := *p
	next.user = p.unprivileged()
	return &next
}

// spawn starts one.
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

// countProgram notes a program, if there is one, that found a container started ahead, or why it did not.
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

// pools are the figures, with the containers that are parked just now.
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
