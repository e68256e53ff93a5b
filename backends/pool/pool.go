// Package pool keeps sandboxes and containers, which take long to make, idle until a caller needs one of their key.
// It decides on their numbers and lifetimes, and on the consequences of failures, and does not know how they are
// made.
package pool

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Key identifies interchangeable items of a pool. Kind returns the labels under which they are counted.
type Key interface {
	comparable
	Kind() (language string, ram int64)
}

// Item is idle in a pool, for one use.
type Item interface {
	comparable
	// NotifyEnd has ended called, once and by another goroutine, if the item ends before Lease.
	NotifyEnd(ended func())
	// Lease stops NotifyEnd, and reports whether the item is usable. It does not wait for a call in progress.
	Lease() bool
	Memory() int64 // bytes of RAM, shared pages counted proportionally (PSS)
	Close() error
}

// Config describes and bounds a pool.
type Config[K Key, I Item] struct {
	Max    int           // items, of all keys together
	Memory int64         // bytes that they may hold in RAM
	Idle   time.Duration // unrequested keys are dropped after this time
	Keys   int           // the most recently requested keys have items; 0 is 64
	Each   int           // items per key; 0 starts at one and grows with demand
	Delay  time.Duration // between a LeaseItem and its replacement; 0 is 50 ms: a shorter program then has the machine to itself
	Once   bool          // only Prepare makes items, and keys are never dropped
	// Make makes an item. Callers that find no item get its error.
	Make func(context.Context, K) (I, error)
	// Tidy is called along with the pool's own cleanup, and reports whether to call it again. It may be nil.
	Tidy func(idle time.Duration) bool
}

// Pool keeps idle items for future callers. Only keys that have been requested are made.
type Pool[K Key, I Item] struct {
	config Config[K, I]
	making sync.WaitGroup
	enough context.Context // ends when no more items are to be made
	stop   context.CancelFunc

	mu       sync.Mutex
	closed   bool
	made     *sync.Cond // signals that an item has been made or has failed
	makers   int        // items in the making, of all keys
	buckets  map[K]*bucket[I]
	counters backends.PoolCounters
	sweep    *time.Timer // runs tidy
	refill   *time.Timer // runs Fill after the last LeaseItem
}

// bucket holds the idle items of one key.
type bucket[I Item] struct {
	ready   []I // oldest first
	want    int // target number of idle items
	making  int
	retired bool      // dropped: items in the making are closed
	made    int       // so far
	memory  int64     // bytes per item, as last measured
	asked   time.Time // last request
	retry   time.Time // after a failure
	failed  string    // why the last attempt failed
}

const (
	// defaultBytes is the assumed size of an item before any of its bucket has been measured.
	defaultBytes = 8 << 20
	// measureEvery is the number of items between two measurements, which cost as much as a small program.
	measureEvery = 64
	// refillDelay is the Delay of a zero Config.
	refillDelay = 50 * time.Millisecond
	// retryDelay is the time after a failure before the next attempt.
	retryDelay = time.Minute
	// maxKeys is the Keys of a zero Config: callers choose scripts' names and limits.
	maxKeys = 64
	// maxReason bounds the part of a failure, in bytes, that callers see.
	maxReason = 150
)

// New returns a pool, which makes no item before the first request.
func New[K Key, I Item](c Config[K, I]) *Pool[K, I] {
	c.Keys, c.Delay = cmp.Or(c.Keys, maxKeys), cmp.Or(c.Delay, refillDelay)
	p := &Pool[K, I]{config: c, buckets: map[K]*bucket[I]{}}
	p.made = sync.NewCond(&p.mu)
	p.enough, p.stop = context.WithCancel(context.Background())
	return p
}

// LeaseItem returns the oldest usable item of a key, or the reason why there is none.
func (p *Pool[K, I]) LeaseItem(key K) (none I, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return none, ""
	}
	b := p.bucket(key)
	p.schedule(&p.sweep, p.config.Idle/4, p.tidy)
	p.schedule(&p.refill, p.config.Delay, p.Fill)
	for len(b.ready) > 0 {
		one := b.ready[0]
		b.ready = b.ready[1:]
		if one.Lease() {
			return one, ""
		}
		p.discard(one)
	}
	// Requests are faster than replacements, or come several at once.
	if p.config.Each == 0 {
		b.want = min(b.want+1, 2*runtime.NumCPU())
	}
	why = "no idle sandbox"
	if b.failed != "" {
		why += ": " + b.failed
	}
	return none, why
}

// bucket returns the bucket of a requested key. The caller holds mu.
func (p *Pool[K, I]) bucket(key K) *bucket[I] {
	b := p.buckets[key]
	if b == nil {
		if asked := p.keysByDemand(); len(asked) >= p.config.Keys {
			p.retire(asked[len(asked)-1])
		}
		b = &bucket[I]{want: max(1, p.config.Each)}
		p.buckets[key] = b
	}
	b.asked = time.Now()
	return b
}

// Prepare makes one idle item of a key, and returns when it is idle, or the reason why it failed.
func (p *Pool[K, I]) Prepare(key K) (failed string) {
	p.mu.Lock()
	b := p.bucket(key)
	for b.making > 0 {
		p.made.Wait()
	}
	if len(b.ready) > 0 || p.closed {
		p.mu.Unlock()
		return ""
	}
	b.making++
	p.makers++
	p.mu.Unlock()
	p.makeItem(key, b)
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.failed
}

// Idle lists the idle items of a key, which stay in the pool.
func (p *Pool[K, I]) Idle(key K) []I {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.buckets[key]; b != nil {
		return slices.Clone(b.ready)
	}
	return nil
}

// Record counts the start of a program: a hit if why is empty (an idle item, or one forked at once), else a miss.
func (p *Pool[K, I]) Record(language string, ram int64, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if counters := p.counters.ForKind(language, ram); why == "" {
		counters.Hits++
	} else {
		counters.Miss(why)
	}
}

// Missed corrects a recorded hit whose item was not usable after all.
func (p *Pool[K, I]) Missed(language string, ram int64, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counters := p.counters.ForKind(language, ram)
	counters.Hits--
	counters.Miss(why)
}

// schedule runs f after a delay, unless it is already scheduled. Close stops it, or waits for it. The caller holds
// mu.
func (p *Pool[K, I]) schedule(t **time.Timer, after time.Duration, f func()) {
	if *t != nil || p.closed || p.config.Once {
		return
	}
	p.making.Add(1)
	*t = time.AfterFunc(after, func() {
		defer p.making.Done()
		p.mu.Lock()
		*t = nil
		p.mu.Unlock()
		f()
	})
}

// retire removes a bucket and closes its idle items. The caller holds mu.
func (p *Pool[K, I]) retire(key K) {
	b := p.buckets[key]
	delete(p.buckets, key)
	b.retired = true
	for _, one := range b.ready {
		p.discard(one)
	}
	b.ready = nil
}

// discard closes an unused item in the background.
func (p *Pool[K, I]) discard(one I) { p.making.Go(func() { one.Close() }) }

// Fill starts to make missing items, a few at a time, for the most recently requested keys first.
func (p *Pool[K, I]) Fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.config.Once {
		return
	}
	now := time.Now()
	for _, key := range p.keysByDemand() {
		b := p.buckets[key]
		for len(b.ready)+b.making < b.want && p.makers < max(1, runtime.NumCPU()/2) && now.After(b.retry) && p.makeRoom(b) {
			b.making++
			p.makers++
			p.making.Go(func() { p.makeItem(key, b) })
		}
	}
}

// keysByDemand lists the keys, most recently requested first.
func (p *Pool[K, I]) keysByDemand() []K {
	return slices.SortedFunc(maps.Keys(p.buckets), func(a, b K) int { return p.buckets[b].asked.Compare(p.buckets[a].asked) })
}

// makeRoom reports whether a bucket may have one more item. It may discard an item of a key that was not requested
// for long, or a second item of a key in favour of the first of another: otherwise two languages requested at once
// would leave a host of two cores no item for a third.
func (p *Pool[K, I]) makeRoom(b *bucket[I]) bool {
	for {
		count, bytes := 1, b.bytes()
		for _, other := range p.buckets {
			n := len(other.ready) + other.making
			count, bytes = count+n, bytes+int64(n)*other.bytes()
		}
		if count <= p.config.Max && bytes <= p.config.Memory {
			return true
		}
		oldest, fullest := b, b
		for _, other := range p.buckets {
			if len(other.ready) > 0 && other.asked.Before(oldest.asked) {
				oldest = other
			}
			if len(other.ready) > len(fullest.ready) {
				fullest = other
			}
		}
		gives := oldest
		switch {
		case len(b.ready)+b.making == 0 && len(fullest.ready) > 1: // one item of each key goes before a second
			gives = fullest
		case b.asked.Sub(oldest.asked) < p.config.Idle/8:
			return false
		}
		p.discard(gives.ready[0])
		gives.ready = gives.ready[1:]
		gives.want = len(gives.ready)
	}
}

// bytes returns the size of one item: as last measured, or else defaultBytes.
func (b *bucket[I]) bytes() int64 { return cmp.Or(b.memory, defaultBytes) }

// makeItem makes one item and adds it to its bucket.
func (p *Pool[K, I]) makeItem(key K, b *bucket[I]) {
	one, err := p.config.Make(p.enough, key)
	p.mu.Lock()
	b.made++
	measure := b.made%measureEvery == 0 || b.made&(b.made-1) == 0 // the more items there are, the more pages they share
	p.mu.Unlock()
	var memory int64
	if err == nil && measure {
		memory = one.Memory()
	}
	p.mu.Lock()
	b.making-- // after it is in its bucket, else tidy could drop the bucket before
	p.makers--
	p.made.Broadcast()
	b.failed = ""
	switch {
	case err != nil:
		b.failed, b.retry = briefText(err), time.Now().Add(retryDelay)
	case p.closed || b.retired:
		defer one.Close()
	default:
		b.ready = append(b.ready, one)
		b.memory = cmp.Or(memory, b.memory)
		p.discardOnEnd(one, b)
	}
	p.mu.Unlock()
	if err == nil {
		p.Fill()
	}
}

// briefText returns an error's text in one line of limited length.
func briefText(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

// discardOnEnd discards an item that ends while it is idle.
func (p *Pool[K, I]) discardOnEnd(one I, b *bucket[I]) {
	one.NotifyEnd(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		i := slices.Index(b.ready, one)
		if i < 0 { // a caller has leased it
			return
		}
		b.ready = slices.Delete(b.ready, i, i+1)
		p.making.Go(func() {
			one.Close()
			p.Fill()
		})
	})
}

// tidy drops keys without recent requests, and lowers the targets raised by the busiest time.
func (p *Pool[K, I]) tidy() {
	left := p.config.Tidy != nil && p.config.Tidy(p.config.Idle)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	for key, b := range p.buckets {
		b.want = max(1, p.config.Each, b.want-1)
		if time.Since(b.asked) > p.config.Idle {
			b.want = 0
		}
		for len(b.ready) > b.want {
			p.discard(b.ready[0])
			b.ready = b.ready[1:]
		}
		if b.want == 0 && b.making == 0 {
			p.retire(key)
		}
	}
	if left || len(p.buckets) > 0 {
		p.schedule(&p.sweep, p.config.Idle/4, p.tidy)
	}
}

// List returns the idle items, hits and misses by kind.
func (p *Pool[K, I]) List() []backends.Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ready []backends.Pool
	for key, b := range p.buckets {
		language, ram := key.Kind()
		ready = append(ready, backends.Pool{Language: language, RAM: ram, Ready: len(b.ready), Memory: int64(len(b.ready)) * b.bytes()})
	}
	return p.counters.Pools(ready)
}

// Clear discards all items, also those in the making, and waits for their end.
func (p *Pool[K, I]) Clear() {
	p.Drop()
	p.making.Wait()
}

// Drop is Clear in the background. It returns the number of items, including those in the making.
func (p *Pool[K, I]) Drop() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, b := range p.buckets {
		n += len(b.ready) + b.making
		p.retire(key)
	}
	return n
}

// Close is a permanent Clear.
func (p *Pool[K, I]) Close() {
	p.mu.Lock()
	p.closed = true
	for _, t := range []*time.Timer{p.sweep, p.refill} {
		if t != nil && t.Stop() {
			p.making.Done()
		}
	}
	p.mu.Unlock()
	p.stop()
	p.Clear()
}
