package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrBusy is the error of a queue that is full. Nothing was started; trying again later may work.
var ErrBusy = errors.New("too many runs are waiting")

// Queue bounds how much runs at once. It is fair between namespaces, which take turns, and first
// come, first served within one. The number of those that wait is bounded, too, and a namespace
// that fills the waiting room gives up its newest place to one that has fewer.
// All methods may be called concurrently.
type Queue struct {
	mu      sync.Mutex
	slots   int
	free    int
	room    int      // how many may wait
	waiting int      // how many do
	back    int      // how many of them have run before
	order   []string // namespaces with waiters; the first one is next
	waiters map[string][]*waiter
	taken   map[string]int // slots that namespaces have, without those that have none
}

// A waiter gets one answer: nil when it may run, or why it may not.
type waiter struct {
	weight int
	back   bool       // it goes on with what it has begun
	answer chan error // has room for the one answer
}

// NewQueue returns a queue that lets runs of a weight of slots together run at once, and lets room
// more wait. At least one can run.
func NewQueue(slots, room int) *Queue {
	slots = max(slots, 1)
	return &Queue{slots: slots, free: slots, room: max(room, 0), waiters: map[string][]*waiter{}, taken: map[string]int{}}
}

// Enter waits for slots and returns a function that releases them, which may be called more than once.
// A weight below one counts as one, and a weight above all slots as all of them. onWait, if set, is
// called before the first time that it has to wait, with how many wait by then.
//
// The error is ErrBusy or the cause of ctx; either way the caller holds nothing and waits nowhere.
func (q *Queue) Enter(ctx context.Context, namespace string, weight int, onWait func(waiting int)) (leave func(), err error) {
	return q.enter(ctx, namespace, weight, false, onWait)
}

// Return is Enter for a run that gave its slots back and goes on: it is never refused, and in its namespace comes before those that have not
// begun. Its caller bounds how many such runs there are. The error is the cause of ctx.
func (q *Queue) Return(ctx context.Context, namespace string, weight int, onWait func(waiting int)) (leave func(), err error) {
	return q.enter(ctx, namespace, weight, true, onWait)
}

func (q *Queue) enter(ctx context.Context, namespace string, weight int, back bool, onWait func(waiting int)) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	weight = min(max(weight, 1), q.slots)
	w, waiting, err := q.join(namespace, weight, back)
	if err != nil {
		return nil, err
	}
	if w == nil {
		return q.leaver(namespace, weight), nil
	}
	if onWait != nil {
		onWait(waiting)
	}
	select {
	case err := <-w.answer:
		if err != nil {
			return nil, err
		}
		return q.leaver(namespace, weight), nil
	case <-ctx.Done():
		q.abandon(namespace, w)
		return nil, context.Cause(ctx)
	}
}

// join takes slots at once, and then returns no waiter, or queues a waiter of the namespace.
func (q *Queue) join(namespace string, weight int, back bool) (*waiter, int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// Nobody overtakes: while somebody waits, for whatever weight, newcomers wait behind.
	if q.waiting == 0 && weight <= q.free {
		q.take(namespace, weight)
		return nil, 0, nil
	}
	if !back && q.waiting-q.back >= q.room && !q.makeRoom(namespace) {
		return nil, 0, fmt.Errorf("%w: %d run and %d wait already", ErrBusy, q.slots-q.free, q.waiting)
	}
	w := &waiter{weight: weight, back: back, answer: make(chan error, 1)}
	if len(q.waiters[namespace]) == 0 {
		q.order = append(q.order, namespace)
	}
	at := len(q.waiters[namespace])
	if back {
		at -= q.fresh(namespace)
		q.back++
	}
	q.waiters[namespace] = slices.Insert(q.waiters[namespace], at, w)
	q.waiting++
	return w, q.waiting, nil
}

// fresh counts the waiters of a namespace that have not run yet. They are the last.
func (q *Queue) fresh(namespace string) (n int) {
	for _, w := range slices.Backward(q.waiters[namespace]) {
		if w.back {
			break
		}
		n++
	}
	return n
}

// makeRoom refuses the newest waiter of the namespace with the most, if the newcomer's namespace still has
// fewer then. Without this, one namespace could keep all others out by waiting a lot.
func (q *Queue) makeRoom(namespace string) bool {
	longest := ""
	for _, ns := range q.order {
		if q.fresh(ns) > q.fresh(longest) {
			longest = ns
		}
	}
	longestQueue := q.waiters[longest]
	if q.fresh(longest) < q.fresh(namespace)+2 {
		return false
	}
	last := longestQueue[len(longestQueue)-1]
	last.answer <- fmt.Errorf("%w: other namespaces wait, and %q has the most places in the queue", ErrBusy, longest)
	q.remove(longest, last)
	return true
}

// abandon removes a waiter that has given up, or gives back the slots that it was granted at the same moment.
func (q *Queue) abandon(namespace string, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.remove(namespace, w) {
		q.admit() // the one behind may be lighter
		return
	}
	// It was admitted at the same moment.
	if err := <-w.answer; err == nil {
		q.release(namespace, w.weight)
		q.admit()
	}
}

// remove takes w out of the queue and reports whether it was there.
func (q *Queue) remove(namespace string, w *waiter) bool {
	waiters := q.waiters[namespace]
	i := slices.Index(waiters, w)
	if i < 0 {
		return false
	}
	q.waiting--
	if w.back {
		q.back--
	}
	if len(waiters) > 1 {
		q.waiters[namespace] = slices.Delete(waiters, i, i+1)
		return true
	}
	delete(q.waiters, namespace)
	t := slices.Index(q.order, namespace)
	q.order = slices.Delete(q.order, t, t+1)
	return true
}

// leaver returns a function that releases the slots at its first call.
func (q *Queue) leaver(namespace string, weight int) func() {
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.release(namespace, weight)
		q.admit()
	})
}

// admit lets waiters in, one namespace after the other, as long as the next one fits. A heavy one
// at the front holds up the lighter ones behind it, or else it would never come in.
func (q *Queue) admit() {
	for len(q.order) > 0 {
		namespace := q.order[0]
		w := q.waiters[namespace][0]
		if w.weight > q.free {
			return
		}
		q.take(namespace, w.weight)
		if q.remove(namespace, w); len(q.waiters[namespace]) > 0 {
			q.order = append(q.order[1:], namespace)
		}
		w.answer <- nil
	}
}
