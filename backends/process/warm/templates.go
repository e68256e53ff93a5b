package warm

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Template is a process that spawns others. It embeds a [Use].
type Template interface {
	comparable
	Spare
	use() *Use
}

// Use counts what a template has spawned that lives: given up, the template ends with the last of them.
type Use struct {
	remove  func()
	since   time.Time
	used    time.Time  // last; Templates.mu guards it
	count   int        // of spawns, ever; likewise
	mu      sync.Mutex // guards what follows
	busy    int        // spawns under way
	live    int        // these, and processes not yet gone
	retired bool       // up
}

func (u *Use) use() *Use { return u }

// Busy says whether a spawn is under way.
func (u *Use) Busy() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.busy > 0
}

// Spawned says that a spawn is over, or has failed: the template can begin the next.
func (u *Use) Spawned() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.busy--
}

// Release says that what was spawned is gone, or that nothing was.
func (u *Use) Release() { u.change(func() { u.live-- }) }

// retire is for a template that is to spawn nothing more.
func (u *Use) retire() { u.change(func() { u.retired = true }) }

// change ends the template if that leaves it of no use.
func (u *Use) change(change func()) {
	u.mu.Lock()
	before := u.retired && u.live == 0
	change()
	last := u.retired && u.live == 0 && !before
	u.mu.Unlock()
	if last {
		u.remove()
	}
}

// maxFailures is how many failures are remembered: callers may choose the keys.
const maxFailures = 64

// Limits are those of templates. One that is zero is none.
type Limits struct {
	Each int           // of one key, since each spawns one after the other; 1 if zero
	All  int           // of all keys: the least lately used makes room for another
	Uses int           // spawns of each: they may have in common what should be bounded
	Age  time.Duration // likewise
	// A key whose template fails is tried again after the first, and after twice as long each time, up to the second.
	PauseFirst, PauseMax time.Duration
}

// Templates starts templates when they are asked for, and keeps them.
type Templates[T Template] struct {
	Limits
	mu       sync.Mutex
	running  map[string][]T
	starting map[string]*start
	failed   map[string]failure
	closed   bool
}

// start is a template that somebody starts: who wants the same waits for that, and nobody else does.
type start struct {
	over   chan struct{} // closed when it runs, or has failed
	cancel context.CancelFunc
}

// failure is why a template could not be had, for a while.
type failure struct {
	why   error
	until time.Time
	pause time.Duration
}

// NewTemplates returns none yet.
func NewTemplates[T Template](l Limits) *Templates[T] {
	return &Templates[T]{Limits: l, running: map[string][]T{}, starting: map[string]*start{}, failed: map[string]failure{}}
}

// Acquire returns a template for one spawn: one that is idle, or another where all are busy and there may be one more.
// begin starts it. The caller calls Spawned when it has spawned or failed to, and Release when what it spawned is gone.
func (t *Templates[T]) Acquire(ctx context.Context, key string, begin func(context.Context) (T, error)) (T, error) {
	for {
		t.mu.Lock()
		one, found, err := t.find(key)
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
		case <-other.over: // who asks again learns more
		case <-ctx.Done():
			return one, ctx.Err()
		}
	}
}

// find returns a template that runs, or why none can be had; neither where one is to be started. The caller has locked.
func (t *Templates[T]) find(key string) (one T, found bool, err error) {
	if t.closed {
		return one, false, ErrClosed
	}
	for _, old := range slices.Clone(t.running[key]) {
		u := old.use()
		if !old.Good() || t.Uses > 0 && u.count >= t.Uses || t.Age > 0 && time.Since(u.since) > t.Age {
			t.forget(old, nil)
		} else if !u.Busy() {
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

// acquire counts a spawn of a template, which nobody gives up meanwhile. The caller has locked.
func (t *Templates[T]) acquire(one T) T {
	u := one.use()
	u.count++
	u.used = time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.live++
	u.busy++
	return one
}

// add keeps a template that has been started, or remembers why it has not.
func (t *Templates[T]) add(ctx context.Context, key string, one T, err error) (none T, _ error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	cancelled := ctx.Err() != nil
	t.starting[key].cancel()
	close(t.starting[key].over)
	delete(t.starting, key)
	switch {
	case err != nil:
		if !cancelled {
			t.fail(key, err)
		}
		return none, err
	case t.closed:
		one.Remove()
		return none, ErrClosed
	}
	all := t.all()
	if t.All > 0 && len(all) >= t.All {
		t.forget(slices.MinFunc(all, func(a, b T) int { return a.use().used.Compare(b.use().used) }), nil)
	}
	u := one.use()
	u.remove, u.since = one.Remove, time.Now()
	t.running[key] = append(t.running[key], one)
	return t.acquire(one), nil
}

// all lists the templates that run. The caller has locked.
func (t *Templates[T]) all() []T { return slices.Concat(slices.Collect(maps.Values(t.running))...) }

// forget gives a template up, and remembers its failure if why is not nil. The caller has locked.
func (t *Templates[T]) forget(bad T, why error) {
	for key, list := range t.running {
		i := slices.Index(list, bad)
		if i < 0 {
			continue
		}
		if t.running[key] = slices.Delete(list, i, i+1); len(list) == 1 {
			delete(t.running, key)
		}
		if why != nil {
			t.fail(key, why)
		}
	}
	bad.use().retire()
}

// fail remembers a failure. The caller has locked.
func (t *Templates[T]) fail(key string, why error) {
	pause := min(cmp.Or(2*t.failed[key].pause, t.PauseFirst), t.PauseMax)
	if _, known := t.failed[key]; !known && len(t.failed) >= maxFailures {
		delete(t.failed, slices.MinFunc(slices.Collect(maps.Keys(t.failed)), func(a, b string) int { return t.failed[a].until.Compare(t.failed[b].until) }))
	}
	t.failed[key] = failure{why, time.Now().Add(pause), pause}
}

// Ready says whether a template of a key runs, so that nobody would wait for its start.
func (t *Templates[T]) Ready(key string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.running[key], T.Good)
}

// Drop gives up a template that has failed to spawn; others that it spawned may be well. Where why is not nil, none is
// started in its place for a while.
func (t *Templates[T]) Drop(bad T, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(bad, why)
}

// Tidy gives up the templates that nobody has used for so long, and says whether others are left.
func (t *Templates[T]) Tidy(idle time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.all() {
		if time.Since(one.use().used) > idle {
			t.forget(one, nil)
		}
	}
	return len(t.running)+len(t.starting) > 0
}

// Close ends the templates, and what is left of what they have spawned.
func (t *Templates[T]) Close() {
	t.mu.Lock()
	t.closed = true
	for _, one := range t.all() {
		one.Remove()
	}
	clear(t.running)
	coming := slices.Collect(maps.Values(t.starting))
	t.mu.Unlock()
	for _, one := range coming {
		one.cancel()
		<-one.over
	}
}
