package warm

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

// Key is all that items of a pool can differ in, and have in common what they are counted by.
type Key interface {
	comparable
	Kind() (language string, ram int64)
}

// Item stands idle in a pool, for one use.
type Item interface {
	comparable
	// Watch has ended called, once and by another goroutine, if the item ends before Lease.
	Watch(ended func())
	// Lease ends that, and says whether the item is of use. It does not wait for a call that is under way.
	Lease() bool
	Memory() int64 // bytes that it holds in RAM, shared pages counted by share (PSS)
	Close() error
}

// Config says what a pool is for, and bounds it.
type Config[K Key, I Item] struct {
	Max    int           // items, of all keys together
	Memory int64         // bytes that they may hold in RAM
	Idle   time.Duration // a key that nobody has asked for that long is given up
	Once   bool          // nothing is made but by Prepare, nor given up
	// Make makes an item. note says what was amiss, and is told to those who find none.
	Make func(context.Context, K) (one I, note, err error)
	// Tidy is called along with the pool's own, and says whether it is to be called again. Nil is none.
	Tidy func(idle time.Duration) bool
}

// Pool keeps items ready for those who may come. Only what somebody has asked for is made.
type Pool[K Key, I Item] struct {
	config Config[K, I]
	making sync.WaitGroup
	enough context.Context // ends when nothing more is to be made
	stop   context.CancelFunc

	mu       sync.Mutex
	closed   bool
	made     *sync.Cond // another one, or failed to
	makers   int        // items in the making, of all keys
	buckets  map[K]*bucket[I]
	counters backends.PoolCounters
	sweep    *time.Timer // for keys that nobody asks for any more
	refill   *time.Timer // after what was taken last
}

// bucket holds what stands ready of one key.
type bucket[I Item] struct {
	ready   []I // the oldest first
	want    int // how many are to stand ready
	making  int
	retired bool      // up: what is still in the making is closed
	made    int       // so far
	memory  int64     // bytes of one, as last measured
	asked   time.Time // last
	retry   time.Time // after a failure
	failed  string    // why
	note    string    // of the last that was made
}

const (
	// defaultBytes is what an item is taken to hold before any of its bucket has been measured.
	defaultBytes = 8 << 20
	// measureEvery is how many are made between two measurements, which cost as much as a small program.
	measureEvery = 64
	// refillDelay is how long a program that runs on puts off that another takes its place: shorter ones are
	// to have the machine to themselves.
	refillDelay = 50 * time.Millisecond
	// retryDelay is when something that failed is tried once more.
	retryDelay = time.Minute
	// maxBuckets bounds what is remembered of what callers choose: scripts' names and limits.
	maxBuckets = 64
	// maxReason is how many bytes of a failure are told to those who find nothing ready.
	maxReason = 150
)

// NewPool returns a pool, which makes nothing before somebody asks.
func NewPool[K Key, I Item](c Config[K, I]) *Pool[K, I] {
	p := &Pool[K, I]{config: c, buckets: map[K]*bucket[I]{}}
	p.made = sync.NewCond(&p.mu)
	p.enough, p.stop = context.WithCancel(context.Background())
	return p
}

// Take returns the oldest item of a key that is of use; or why there is none.
func (p *Pool[K, I]) Take(key K) (none I, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return none, ""
	}
	b := p.bucket(key)
	p.later(&p.sweep, p.config.Idle/4, p.tidy)
	p.later(&p.refill, refillDelay, p.Fill)
	for len(b.ready) > 0 {
		one := b.ready[0]
		b.ready = b.ready[1:]
		if one.Lease() {
			return one, ""
		}
		p.discard(one)
	}
	// They come faster than they are made, or several at once.
	b.want = min(b.want+1, 2*runtime.NumCPU())
	why = "none stood ready"
	if cause := cmp.Or(b.failed, b.note); cause != "" {
		why += ": " + cause
	}
	return none, why
}

// bucket is that of a key that somebody asks for just now. The caller has locked.
func (p *Pool[K, I]) bucket(key K) *bucket[I] {
	b := p.buckets[key]
	if b == nil {
		if asked := p.byAsked(); len(asked) >= maxBuckets {
			p.retire(asked[len(asked)-1])
		}
		b = &bucket[I]{want: 1}
		p.buckets[key] = b
	}
	b.asked = time.Now()
	return b
}

// Prepare has one item of a key stand ready, and returns when it does, or why it does not.
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
	p.make(key, b)
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.failed
}

// Idle lists the items of a key that stand ready, which stay the pool's.
func (p *Pool[K, I]) Idle(key K) []I {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.buckets[key]; b != nil {
		return slices.Clone(b.ready)
	}
	return nil
}

// Record counts a program that has begun: in what stood ready, or was made at once, as its result will say; why not, or "".
func (p *Pool[K, I]) Record(language string, ram int64, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if counters := p.counters.Of(language, ram); why == "" {
		counters.Hits++
	} else {
		counters.Miss(why)
	}
}

// Missed says that what was recorded as ready was of no use after all.
func (p *Pool[K, I]) Missed(language string, ram int64, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counters := p.counters.Of(language, ram)
	counters.Hits--
	counters.Miss(why)
}

// later has f run after a while, once at a time. Close stops it, or waits for it. The caller has locked.
func (p *Pool[K, I]) later(t **time.Timer, after time.Duration, f func()) {
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

// retire forgets a bucket and what stands ready in it. The caller has locked.
func (p *Pool[K, I]) retire(key K) {
	b := p.buckets[key]
	delete(p.buckets, key)
	b.retired = true
	for _, one := range b.ready {
		p.discard(one)
	}
	b.ready = nil
}

// discard closes, in the background, an item that nobody has.
func (p *Pool[K, I]) discard(one I) { p.making.Go(func() { one.Close() }) }

// Fill has made what is wanted, keys asked for last first, and a few at a time.
func (p *Pool[K, I]) Fill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.config.Once {
		return
	}
	now := time.Now()
	for _, key := range p.byAsked() {
		b := p.buckets[key]
		for len(b.ready)+b.making < b.want && p.makers < max(1, runtime.NumCPU()/2) && now.After(b.retry) && p.room(b) {
			b.making++
			p.makers++
			p.making.Go(func() { p.make(key, b) })
		}
	}
}

// byAsked lists the keys, those asked for last first.
func (p *Pool[K, I]) byAsked() []K {
	return slices.SortedFunc(maps.Keys(p.buckets), func(a, b K) int { return p.buckets[b].asked.Compare(p.buckets[a].asked) })
}

// room says whether one more of a bucket may be made. What was asked for long before has to make room, and a second of a
// key for the first of another: two languages asked for at once had a host of two cores keep nothing for a third.
func (p *Pool[K, I]) room(b *bucket[I]) bool {
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
		case len(b.ready)+b.making == 0 && len(fullest.ready) > 1: // one of each key goes before a second
			gives = fullest
		case b.asked.Sub(oldest.asked) < p.config.Idle/8:
			return false
		}
		p.discard(gives.ready[0])
		gives.ready = gives.ready[1:]
		gives.want = len(gives.ready)
	}
}

func (b *bucket[I]) bytes() int64 { return cmp.Or(b.memory, defaultBytes) }

// make makes one item and puts it into its bucket.
func (p *Pool[K, I]) make(key K, b *bucket[I]) {
	one, note, err := p.config.Make(p.enough, key)
	p.mu.Lock()
	b.made++
	measure := b.made%measureEvery == 0 || b.made&(b.made-1) == 0 // the more there are, the more they share
	p.mu.Unlock()
	var memory int64
	if err == nil && measure {
		memory = one.Memory()
	}
	p.mu.Lock()
	b.making-- // not before it is in its bucket, or tidy could give that up meanwhile
	p.makers--
	p.made.Broadcast()
	b.failed = ""
	switch {
	case err != nil:
		b.failed, b.retry = brief(err), time.Now().Add(retryDelay)
	case p.closed || b.retired:
		defer one.Close()
	default:
		b.note = brief(note)
		b.ready = append(b.ready, one)
		b.memory = cmp.Or(memory, b.memory)
		p.watch(one, b)
	}
	p.mu.Unlock()
	if err == nil {
		p.Fill()
	}
}

// brief is what an error says, in one line that is not too long to be counted.
func brief(err error) string {
	if err == nil {
		return ""
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

// watch discards an item that ends while it is idle.
func (p *Pool[K, I]) watch(one I, b *bucket[I]) {
	one.Watch(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		i := slices.Index(b.ready, one)
		if i < 0 { // somebody has it in hand
			return
		}
		b.ready = slices.Delete(b.ready, i, i+1)
		p.making.Go(func() {
			one.Close()
			p.Fill()
		})
	})
}

// tidy gives up what nobody has asked for lately, and a little of what was wanted at the busiest time.
func (p *Pool[K, I]) tidy() {
	left := p.config.Tidy != nil && p.config.Tidy(p.config.Idle)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	for key, b := range p.buckets {
		b.want = max(1, b.want-1)
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
		p.later(&p.sweep, p.config.Idle/4, p.tidy)
	}
}

// List says how many stand ready, and how often one was found.
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

// Clear ends what stands ready or is being made, and waits for it.
func (p *Pool[K, I]) Clear() {
	p.mu.Lock()
	for key := range p.buckets {
		p.retire(key)
	}
	p.mu.Unlock()
	p.making.Wait()
}

// Close is Clear for good.
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
