// Package templates keeps templates, which are processes that spawn others. It decides on their numbers and
// lifetimes, and on the consequences of failures, and does not know how they are made.
package templates

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// ErrClosed is returned after Close.
var ErrClosed = errors.New("the backend is closed")

// Template is a process that spawns others. It embeds a [Use]. Its methods may be called concurrently.
type Template interface {
	comparable
	Good() bool // it lives, and equals a new one
	Remove()    // ends it, and the processes that it has spawned
	use() *Use
}

// Use counts the living processes that a template has spawned. A retired template ends with the last of them.
type Use struct {
	mu      *sync.Mutex // of its Set; guards the fields below
	remove  func()      // runs in the background
	since   time.Time
	used    time.Time // last use
	count   int       // spawns so far
	busy    int       // spawns in progress
	live    int       // spawns in progress, and spawned processes that have not ended
	retired bool
}

// use returns the Use that a template embeds.
func (u *Use) use() *Use { return u }

// Busy reports whether a spawn is in progress.
func (u *Use) Busy() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.busy > 0
}

// Spawned ends a spawn, successful or not: the template can begin the next.
func (u *Use) Spawned() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.busy--
}

// Release reports that a spawned process has ended, or that the spawn failed.
func (u *Use) Release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.live--; u.retired && u.live == 0 {
		u.remove()
	}
}

// retire ends the template once no spawned process is left. The caller holds mu.
func (u *Use) retire() {
	if !u.retired && u.live == 0 {
		u.remove()
	}
	u.retired = true
}

// maxFailures bounds the recorded failures: callers may choose the keys.
const maxFailures = 64

// Limits bound templates. A zero field is no limit.
type Limits struct {
	Each int           // per key, since a template spawns one process at a time; 0 is 1
	All  int           // of all keys: the least recently used one gives way
	Uses int           // spawns of each: spawned processes may share properties, whose spread should be bounded
	Age  time.Duration // for the same reason
	// Pauses before a key whose template has failed is tried again: the first, and the maximum of the doubled later
	// ones.
	PauseFirst, PauseMax time.Duration
}

// Set starts templates on request, and keeps them.
type Set[T Template] struct {
	Limits
	mu       sync.Mutex
	removing sync.WaitGroup
	running  map[string][]T
	starting map[string]*start
	failed   map[string]failure
	closed   bool
}

// start is a template in the making: callers with the same key wait for it.
type start struct {
	over   chan struct{} // closed when the template runs, or has failed
	cancel context.CancelFunc
}

// failure blocks a key for a while.
type failure struct {
	why   error
	until time.Time
	pause time.Duration
}

// New returns an empty set.
func New[T Template](l Limits) *Set[T] {
	return &Set[T]{Limits: l, running: map[string][]T{}, starting: map[string]*start{}, failed: map[string]failure{}}
}

// Acquire returns a template for one spawn: an idle one, or a new one if all are busy and the limit permits it.
// begin starts it. The caller calls Spawned after the spawn, successful or not, and Release when the spawned
// process has ended.
func (t *Set[T]) Acquire(ctx context.Context, key string, begin func(context.Context) (T, error)) (T, error) {
	for {
		t.mu.Lock()
		one, found, err := t.runningTemplate(key)
		if found || err != nil {
			t.mu.Unlock()
			return one, err
		}
		other := t.starting[key]
		if other == nil {
			ctx, cancel := context.WithCancel(ctx)
			t.starting[key] = &start{make(chan struct{}), cancel}
			t.mu.Unlock()
			one, err = begin(ctx)
			return t.add(ctx, key, one, err)
		}
		t.mu.Unlock()
		select {
		case <-other.over: // the next lookup has the result
		case <-ctx.Done():
			return one, ctx.Err()
		}
	}
}

// runningTemplate returns a running template, or the reason why there is none; neither if one is to be started. The
// caller holds mu.
func (t *Set[T]) runningTemplate(key string) (one T, found bool, err error) {
	if t.closed {
		return one, false, ErrClosed
	}
	for _, old := range slices.Clone(t.running[key]) {
		u := old.use()
		if !old.Good() || t.Uses > 0 && u.count >= t.Uses || t.Age > 0 && time.Since(u.since) > t.Age {
			t.forget(old, nil)
		} else if u.busy == 0 {
			return t.acquire(old), true, nil
		}
	}
	if list := t.running[key]; len(list) >= max(1, t.Each) || len(list) > 0 && t.starting[key] != nil {
		return t.acquire(list[rand.N(len(list))]), true, nil
	}
	if last := t.failed[key]; time.Now().Before(last.until) {
		return one, false, last.why
	}
	return one, false, nil
}

// acquire counts a spawn of a template, which is not given up meanwhile. The caller holds mu.
func (t *Set[T]) acquire(one T) T {
	u := one.use()
	u.count++
	u.used = time.Now()
	u.live++
	u.busy++
	return one
}

// add adds a started template, or records the failure.
func (t *Set[T]) add(ctx context.Context, key string, one T, err error) (none T, _ error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	cancelled := ctx.Err() != nil
	t.starting[key].cancel()
	defer close(t.starting[key].over)
	delete(t.starting, key)
	switch {
	case err != nil:
		if !cancelled {
			t.recordFailure(key, err)
		}
		return none, err
	case t.closed:
		t.removing.Go(one.Remove)
		return none, ErrClosed
	}
	if all := t.all(); t.All > 0 && len(all) >= t.All {
		t.forget(slices.MinFunc(all, func(a, b T) int { return a.use().used.Compare(b.use().used) }), nil)
	}
	u := one.use()
	u.mu, u.remove, u.since = &t.mu, func() { t.removeTemplate(one) }, time.Now()
	t.running[key] = append(t.running[key], one)
	return t.acquire(one), nil
}

// removeTemplate ends a template that was given up. The caller holds mu. Close waits for its end, unless Close is
// waiting already: then no template can be added.
func (t *Set[T]) removeTemplate(one T) {
	if t.closed {
		go one.Remove()
		return
	}
	t.removing.Go(one.Remove)
}

// all lists the running templates. The caller holds mu.
func (t *Set[T]) all() []T { return slices.Concat(slices.Collect(maps.Values(t.running))...) }

// forget gives up a template, and records its failure if why is not nil. The caller holds mu.
func (t *Set[T]) forget(bad T, why error) {
	for key, list := range t.running {
		i := slices.Index(list, bad)
		if i < 0 {
			continue
		}
		if t.running[key] = slices.Delete(list, i, i+1); len(list) == 1 {
			delete(t.running, key)
		}
		if why != nil {
			t.recordFailure(key, why)
		}
	}
	bad.use().retire()
}

// recordFailure records a failure. The caller holds mu.
func (t *Set[T]) recordFailure(key string, why error) {
	pause := min(cmp.Or(2*t.failed[key].pause, t.PauseFirst), t.PauseMax)
	if _, known := t.failed[key]; !known && len(t.failed) >= maxFailures {
		delete(t.failed, slices.MinFunc(slices.Collect(maps.Keys(t.failed)),
			func(a, b string) int { return t.failed[a].until.Compare(t.failed[b].until) }))
	}
	t.failed[key] = failure{why, time.Now().Add(pause), pause}
}

// Ready reports whether a template of a key is running, so that Acquire does not wait for a start.
func (t *Set[T]) Ready(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.running[key], T.Good)
}

// Running lists the running templates.
func (t *Set[T]) Running() []T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all()
}

// Drop gives up a template that has failed to spawn; its spawned processes may be usable. If why is not nil, no
// replacement is started for a while.
func (t *Set[T]) Drop(bad T, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(bad, why)
}

// Tidy gives up the templates that have been unused for idle, and reports whether others are left.
func (t *Set[T]) Tidy(idle time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.all() {
		if time.Since(one.use().used) > idle {
			t.forget(one, nil)
		}
	}
	return len(t.running)+len(t.starting) > 0
}

// Close ends the templates, and all processes that they have spawned.
func (t *Set[T]) Close() {
	t.mu.Lock()
	t.closed = true
	for _, one := range t.all() {
		t.removing.Go(one.Remove)
	}
	clear(t.running)
	coming := slices.Collect(maps.Values(t.starting))
	t.mu.Unlock()
	for _, one := range coming {
		one.cancel()
		<-one.over
	}
	t.removing.Wait()
}
