package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrBusy is the error of a queue that is full. Nothing was started; trying again later may work.
var ErrBusy = errors.New("too many runs are waiting")

// Queue bounds how much runs at once, and shares that: identities take turns, in each its namespaces, and in a namespace the first that came is
// the first served. A namespace of a caller without an identity counts as one. A run that has held its slots for longer than slotTime keeps them
// and runs on, but keeps nobody out any more: see [Queue.mayExceed]. The number of those that wait is bounded, too, and who fills the waiting room
// gives up the newest place to others that have fewer. All methods may be called concurrently.
type Queue struct {
	mu      sync.Mutex
	slots   int
	room    int // how many may wait
	taken   int // slots, also those beyond slots
	waiting int // how many do
	back    int // how many of them have run before
	parties map[string]*party
	turns   []*party // that wait; the first one is next
	running []*ticket
	aging   *time.Timer // admits again when a run has held its slots for slotTime
}

// slotTime is how long a run that holds its slots keeps others out. Most runs take less, and an honest namespace waits no longer.
const slotTime = 500 * time.Millisecond

// A party is who shares the queue with others: an identity, or a namespace of callers without one.
type party struct {
	owner string
	taken int              // slots
	lines map[string]*line // by namespace
	turns []*line          // that wait; the first one is next
}

// A line has what one party has in one namespace.
type line struct {
	party     *party
	namespace string
	taken     int // slots
	waiters   []*ticket
}

// A ticket gets one answer: nil when its run may begin, or why it may not.
type ticket struct {
	line   *line
	weight int
	back   bool // it goes on with what it has begun
	since  time.Time
	answer chan error // has room for the one answer
}

// NewQueue returns a queue that lets runs of a weight of slots together run at once, and lets room
// more wait. At least one can run.
func NewQueue(slots, room int) *Queue {
	return &Queue{slots: max(slots, 1), room: max(room, 0), parties: map[string]*party{}}
}

// defaultSlots returns how many runs go on at once where nobody says it: as many as cores, and at least four, since
// many programs sleep.
func defaultSlots(cores int) int { return max(cores, 4) }

// most returns how many slots are taken at most, when some run for long and others want their share.
func (q *Queue) most() int { return q.slots + max(2*q.slots, 4) }

// ownerOf returns who shares a queue as the caller of ctx.
func ownerOf(ctx context.Context, namespace string) string {
	return cmp.Or(caller(ctx).Identity, "namespace "+namespace)
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
	t := &ticket{weight: min(max(weight, 1), q.slots), back: back, answer: make(chan error, 1)}
	waiting, err := q.join(t, ownerOf(ctx, namespace), namespace)
	if err != nil {
		return nil, err
	}
	if waiting > 0 && onWait != nil {
		onWait(waiting)
	}
	select {
	case err := <-t.answer:
		if err != nil {
			return nil, err
		}
		return sync.OnceFunc(func() { q.leave(t) }), nil
	case <-ctx.Done():
		q.abandon(t)
		return nil, context.Cause(ctx)
	}
}

// join queues a ticket and returns how many wait then, 0 if its run may begin at once.
func (q *Queue) join(t *ticket, owner, namespace string) (waiting int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.enqueue(t, owner, namespace)
	if q.admit(); !slices.Contains(t.line.waiters, t) {
		return 0, nil
	}
	if t.back || q.waiting-q.back <= q.room {
		return q.waiting, nil
	}
	last := q.last(t)
	q.remove(last)
	if last == t {
		return 0, fmt.Errorf("%w: %d slots are taken and %d wait already", ErrBusy, q.taken, q.waiting)
	}
	last.answer <- fmt.Errorf("%w: others wait, and %q has the most places in the queue", ErrBusy, last.line.namespace)
	return q.waiting, nil
}

// enqueue adds a ticket to its line: behind those that have run before if it has, else behind all.
func (q *Queue) enqueue(t *ticket, owner, namespace string) {
	p := q.parties[owner]
	if p == nil {
		p = &party{owner: owner, lines: map[string]*line{}}
		q.parties[owner] = p
	}
	l := p.lines[namespace]
	if l == nil {
		l = &line{party: p, namespace: namespace}
		p.lines[namespace] = l
	}
	if len(p.turns) == 0 {
		q.turns = append(q.turns, p)
	}
	if len(l.waiters) == 0 {
		p.turns = append(p.turns, l)
	}
	at := len(l.waiters)
	if t.back {
		at -= l.fresh()
		q.back++
	}
	t.line, l.waiters = l, slices.Insert(l.waiters, at, t)
	q.waiting++
}

// fresh counts the waiters of a line that have not run yet. They are the last.
func (l *line) fresh() (n int) {
	for _, t := range slices.Backward(l.waiters) {
		if t.back {
			break
		}
		n++
	}
	return n
}

// fresh counts the waiters of a party that have not run yet.
func (p *party) fresh() (n int) {
	for _, l := range p.turns {
		n += l.fresh()
	}
	return n
}

// last returns the ticket that has to go when there is no room for t: the newest of the longest line of the party with the most, and t itself
// unless another has more. Without this, one namespace, or one identity by many of them, could keep all others out by waiting a lot.
func (q *Queue) last(t *ticket) *ticket {
	p, l := t.line.party, t.line
	for _, other := range q.turns {
		if other.fresh() > p.fresh() {
			p = other
			l = p.turns[0]
		}
	}
	for _, other := range p.turns {
		if other.fresh() > l.fresh() {
			l = other
		}
	}
	return l.waiters[len(l.waiters)-1]
}

// abandon removes a ticket that has given up, or gives back the slots that it was granted at the same moment.
func (q *Queue) abandon(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.remove(t):
	case <-t.answer == nil: // at the same moment
		q.release(t)
	}
	q.admit() // the one behind may be lighter
}

// leave releases a ticket's slots, and lets others in.
func (q *Queue) leave(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.release(t)
	q.admit()
}

// remove takes t out of its line and reports whether it was there. Another line and another party have the next turn.
func (q *Queue) remove(t *ticket) bool {
	l, p := t.line, t.line.party
	i := slices.Index(l.waiters, t)
	if i < 0 {
		return false
	}
	l.waiters = slices.Delete(l.waiters, i, i+1)
	q.waiting--
	if t.back {
		q.back--
	}
	if len(l.waiters) == 0 {
		p.turns = without(p.turns, l)
	}
	if len(p.turns) == 0 {
		q.turns = without(q.turns, p)
	}
	q.forget(l)
	return true
}

// without returns list without its element e.
func without[E comparable](list []E, e E) []E {
	if i := slices.Index(list, e); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// toEnd returns list with its element e, if it is there, as the last.
func toEnd[E comparable](list []E, e E) []E {
	if slices.Contains(list, e) {
		list = append(without(list, e), e)
	}
	return list
}

// forget drops a line that has nothing in the queue.
func (q *Queue) forget(l *line) {
	if l.taken == 0 && len(l.waiters) == 0 {
		delete(l.party.lines, l.namespace)
	}
	if len(l.party.lines) == 0 {
		delete(q.parties, l.party.owner)
	}
}

// admit lets in all that may run now.
func (q *Queue) admit() {
	for t := q.next(); t != nil; t = q.next() {
		q.take(t)
		q.remove(t)
		t.line.party.turns = toEnd(t.line.party.turns, t.line)
		q.turns = toEnd(q.turns, t.line.party)
		t.answer <- nil
	}
	q.watchAge()
}

// next returns the ticket that may run now, nil if there is none. A heavy one whose turn it is holds up the lighter ones behind it, or else it would
// never come in; but not those that have less than their share, while it waits for runs that take long.
func (q *Queue) next() *ticket {
	if len(q.turns) == 0 {
		return nil
	}
	if first := q.turns[0].turns[0].waiters[0]; q.taken+first.weight <= q.slots {
		return first
	}
	young := q.young()
	for _, p := range q.turns {
		for _, l := range p.turns {
			t := l.waiters[0]
			if !q.mayExceed(l, t.weight) {
				continue
			}
			if young+t.weight <= q.slots {
				return t
			}
			return nil
		}
	}
	return nil
}

// mayExceed reports whether a line may take slots beside those of runs that have held theirs for longer than slotTime: it has none yet, or its party
// less than its share; the slots that are taken stay below most; but for its first, no party takes more than it leaves to others; and half of the slots
// beyond those of the queue are for namespaces that have none, or else one tenant would have all by many identities.
func (q *Queue) mayExceed(l *line, weight int) bool {
	p := l.party
	share := l.taken == 0 || (p.taken+weight)*len(q.parties) <= q.slots
	left := q.most() - q.taken - weight
	if left < (q.most()-q.slots)/2 && q.takenIn(l.namespace) > 0 {
		return false
	}
	return share && left >= 0 && (p.taken == 0 || p.taken+weight <= left)
}

// takenIn returns the slots of a namespace, of all parties.
func (q *Queue) takenIn(namespace string) (slots int) {
	for _, p := range q.parties {
		if l := p.lines[namespace]; l != nil {
			slots += l.taken
		}
	}
	return slots
}

// young returns the slots of the runs that have held theirs for less than slotTime.
func (q *Queue) young() (slots int) {
	for _, t := range slices.Backward(q.running) {
		if time.Since(t.since) >= slotTime {
			break
		}
		slots += t.weight
	}
	return slots
}

// watchAge has the queue admit again when the next run has held its slots for slotTime, if somebody waits for that.
func (q *Queue) watchAge() {
	if q.aging != nil {
		q.aging.Stop()
	}
	if q.waiting == 0 {
		return
	}
	for _, t := range q.running {
		if age := time.Since(t.since); age < slotTime {
			q.aging = time.AfterFunc(slotTime-age, func() {
				q.mu.Lock()
				defer q.mu.Unlock()
				q.admit()
			})
			return
		}
	}
}

// take assigns slots to a ticket. The caller holds the lock, as for release.
func (q *Queue) take(t *ticket) {
	t.since = time.Now()
	q.running = append(q.running, t)
	q.taken += t.weight
	t.line.taken += t.weight
	t.line.party.taken += t.weight
}

// release gives slots back.
func (q *Queue) release(t *ticket) {
	q.running = without(q.running, t)
	q.taken -= t.weight
	t.line.taken -= t.weight
	t.line.party.taken -= t.weight
	q.forget(t.line)
}
