package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// SlotWeight returns how many slots of the queue a run with these limits takes: the cores that it may use.
func SlotWeight(l backends.Limits) int { return int(math.Ceil(l.CPU)) }

// ErrBusy is the error of a queue that is full. Nothing was started; trying again later may work.
var ErrBusy = errors.New("too many runs are waiting")

// Queue bounds how much runs at once, and shares that: identities take turns, in each its namespaces, and in a
// namespace the first that came is the first served. A namespace of a caller without an identity counts as one. A run
// that has held its slots for longer than slotTime keeps them and runs on, but keeps nobody out any more: see
// [Queue.mayExceed]. The number of those that wait is bounded, too, and who fills the waiting room gives up the newest
// place to others that have fewer. All methods may be called concurrently.
type Queue struct {
	mu        sync.Mutex
	Slots     int
	room      int // how many may wait
	taken     int // slots, also those beyond slots
	waiting   int // how many do
	returning int // how many of them have run before
	parties   map[string]*party
	turns     []*party // that wait; the first one is next
	running   []*ticket
	aging     *time.Timer // admits again when a run has held its slots for slotTime
}

// SlotTime is how long a run that holds its slots keeps others out. Most runs take less, and an honest namespace waits
// no longer.
const SlotTime = 500 * time.Millisecond

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
	line      *line
	weight    int
	returning bool // it goes on with what it has begun
	since     time.Time
	answer    chan error // has room for the one answer
}

// NewQueue returns a queue that lets runs of a weight of slots together run at once, and lets room
// more wait. At least one can run.
func NewQueue(slots, room int) *Queue {
	return &Queue{Slots: max(slots, 1), room: max(room, 0), parties: map[string]*party{}}
}

// defaultSlots returns how many runs go on at once where nobody says it: as many as cores, and at least four, since
// many programs sleep.
func defaultSlots(cores int) int { return max(cores, 4) }

// maxSlots returns how many slots are taken at most, when some run for long and others want their share.
func (q *Queue) maxSlots() int { return q.Slots + max(2*q.Slots, 4) }

// QueueOwner returns who shares a queue as the caller of ctx.
func QueueOwner(ctx context.Context, namespace string) string {
	return cmp.Or(CallerFrom(ctx).Identity, "namespace "+namespace)
}

// Acquire waits for slots and returns a function that releases them, which may be called more than once.
// A weight below one counts as one, and a weight above all slots as all of them. onWait, if set, is
// called before the first time that it has to wait, with how many wait by then.
//
// The error is ErrBusy or the cause of ctx; either way the caller holds nothing and waits nowhere.
func (q *Queue) Acquire(ctx context.Context, namespace string, weight int, onWait func(waiting int)) (leave func(), err error) {
	return q.acquire(ctx, namespace, weight, false, onWait)
}

// Reacquire is Enter for a run that gave its slots back and goes on: it is never refused, and in its namespace comes
// before those that have not begun. Its caller bounds how many such runs there are. The error is the cause of ctx.
func (q *Queue) Reacquire(ctx context.Context, namespace string, weight int, onWait func(waiting int)) (leave func(), err error) {
	return q.acquire(ctx, namespace, weight, true, onWait)
}

func (q *Queue) acquire(ctx context.Context, namespace string, weight int, back bool, onWait func(waiting int)) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t := &ticket{weight: min(max(weight, 1), q.Slots), returning: back, answer: make(chan error, 1)}
	waiting, err := q.join(t, QueueOwner(ctx, namespace), namespace)
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
		return sync.OnceFunc(func() { q.releaseAndAdmit(t) }), nil
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
	if t.returning || q.waiting-q.returning <= q.room {
		return q.waiting, nil
	}
	last := q.ticketToEvict(t)
	q.removeWaiter(last)
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
	if t.returning {
		at -= l.countNew()
		q.returning++
	}
	t.line, l.waiters = l, slices.Insert(l.waiters, at, t)
	q.waiting++
}

// countNew counts the waiters of a line that have not run yet. They are the last.
func (l *line) countNew() (n int) {
	for _, t := range slices.Backward(l.waiters) {
		if t.returning {
			break
		}
		n++
	}
	return n
}

// countNew counts the waiters of a party that have not run yet.
func (p *party) countNew() (n int) {
	for _, l := range p.turns {
		n += l.countNew()
	}
	return n
}

// ticketToEvict returns the ticket that has to go when there is no room for t: the newest of the longest line of the party with
// the most, and t itself unless another has more. Without this, one namespace, or one identity by many of them, could
// keep all others out by waiting a lot.
func (q *Queue) ticketToEvict(t *ticket) *ticket {
	p, l := t.line.party, t.line
	for _, other := range q.turns {
		if other.countNew() > p.countNew() {
			p = other
			l = p.turns[0]
		}
	}
	for _, other := range p.turns {
		if other.countNew() > l.countNew() {
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
	case q.removeWaiter(t):
	case <-t.answer == nil: // at the same moment
		q.releaseSlots(t)
	}
	q.admit() // the one behind may be lighter
}

// releaseAndAdmit releases a ticket's slots, and lets others in.
func (q *Queue) releaseAndAdmit(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.releaseSlots(t)
	q.admit()
}

// removeWaiter takes t out of its line and reports whether it was there. Another line and another party have the next turn.
func (q *Queue) removeWaiter(t *ticket) bool {
	l, p := t.line, t.line.party
	i := slices.Index(l.waiters, t)
	if i < 0 {
		return false
	}
	l.waiters = slices.Delete(l.waiters, i, i+1)
	q.waiting--
	if t.returning {
		q.returning--
	}
	if len(l.waiters) == 0 {
		p.turns = removeElement(p.turns, l)
	}
	if len(p.turns) == 0 {
		q.turns = removeElement(q.turns, p)
	}
	q.dropEmptyLine(l)
	return true
}

// removeElement returns list without its element e.
func removeElement[E comparable](list []E, e E) []E {
	if i := slices.Index(list, e); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// moveToEnd returns list with its element e, if it is there, as the last.
func moveToEnd[E comparable](list []E, e E) []E {
	if slices.Contains(list, e) {
		list = append(removeElement(list, e), e)
	}
	return list
}

// dropEmptyLine drops a line that has nothing in the queue.
func (q *Queue) dropEmptyLine(l *line) {
	if l.taken == 0 && len(l.waiters) == 0 {
		delete(l.party.lines, l.namespace)
	}
	if len(l.party.lines) == 0 {
		delete(q.parties, l.party.owner)
	}
}

// admit lets in all that may run now.
func (q *Queue) admit() {
	for t := q.nextTicket(); t != nil; t = q.nextTicket() {
		q.assignSlots(t)
		q.removeWaiter(t)
		t.line.party.turns = moveToEnd(t.line.party.turns, t.line)
		q.turns = moveToEnd(q.turns, t.line.party)
		t.answer <- nil
	}
	q.scheduleAdmission()
}

// nextTicket returns the ticket that may run now, nil if there is none. A heavy one whose turn it is holds up the lighter
// ones behind it, or else it would never come in; but not those that have less than their share, while it waits for
// runs that take long.
func (q *Queue) nextTicket() *ticket {
	if len(q.turns) == 0 {
		return nil
	}
	if first := q.turns[0].turns[0].waiters[0]; q.taken+first.weight <= q.Slots {
		return first
	}
	young := q.slotsOfYoungRuns()
	for _, p := range q.turns {
		for _, l := range p.turns {
			t := l.waiters[0]
			if !q.mayExceed(l, t.weight) {
				continue
			}
			if young+t.weight <= q.Slots {
				return t
			}
			return nil
		}
	}
	return nil
}

// mayExceed reports whether a line may take slots beside those of runs that have held theirs for longer than slotTime:
// it has none yet, or its party less than its share; the slots that are taken stay below most; but for its first, no
// party takes more than it leaves to others; and half of the slots beyond those of the queue are for namespaces that
// have none, or else one tenant would have all by many identities.
func (q *Queue) mayExceed(l *line, weight int) bool {
	p := l.party
	share := l.taken == 0 || (p.taken+weight)*len(q.parties) <= q.Slots
	left := q.maxSlots() - q.taken - weight
	if left < (q.maxSlots()-q.Slots)/2 && q.slotsTakenIn(l.namespace) > 0 {
		return false
	}
	return share && left >= 0 && (p.taken == 0 || p.taken+weight <= left)
}

// slotsTakenIn returns the slots of a namespace, of all parties.
func (q *Queue) slotsTakenIn(namespace string) (slots int) {
	for _, p := range q.parties {
		if l := p.lines[namespace]; l != nil {
			slots += l.taken
		}
	}
	return slots
}

// slotsOfYoungRuns returns the slots of the runs that have held theirs for less than slotTime.
func (q *Queue) slotsOfYoungRuns() (slots int) {
	for _, t := range slices.Backward(q.running) {
		if time.Since(t.since) >= SlotTime {
			break
		}
		slots += t.weight
	}
	return slots
}

// scheduleAdmission has the queue admit again when the next run has held its slots for slotTime, if somebody waits for that.
func (q *Queue) scheduleAdmission() {
	if q.aging != nil {
		q.aging.Stop()
	}
	if q.waiting == 0 {
		return
	}
	for _, t := range q.running {
		if age := time.Since(t.since); age < SlotTime {
			q.aging = time.AfterFunc(SlotTime-age, func() {
				q.mu.Lock()
				defer q.mu.Unlock()
				q.admit()
			})
			return
		}
	}
}

// assignSlots assigns slots to a ticket. The caller holds the lock, as for release.
func (q *Queue) assignSlots(t *ticket) {
	t.since = time.Now()
	q.running = append(q.running, t)
	q.taken += t.weight
	t.line.taken += t.weight
	t.line.party.taken += t.weight
}

// releaseSlots gives slots back.
func (q *Queue) releaseSlots(t *ticket) {
	q.running = removeElement(q.running, t)
	q.taken -= t.weight
	t.line.taken -= t.weight
	t.line.party.taken -= t.weight
	q.dropEmptyLine(t.line)
}

// Load counts the slots and the waiting requests of a queue. Slots are what runs take while they run: one each, and
// more where one may use several cores.
type Load struct {
	Slots      int             `json:"slots"`
	Running    int             `json:"running"` // slots that are taken; more than Slots while some run for long and others have less than their share
	Waiting    int             `json:"waiting"` // requests
	Room       int             `json:"room"`    // how many requests may wait
	Namespaces []NamespaceLoad `json:"namespaces"`
}

// NamespaceLoad counts the slots and the waiting requests of one namespace.
type NamespaceLoad struct {
	Namespace string `json:"namespace"`
	Running   int    `json:"running"` // slots
	Waiting   int    `json:"waiting"` // requests
}

// Load returns the load of the queue, namespaces by name; those that have nothing in it are left out.
func (p *Pipeline) Load() Load { return p.Config.Queue.load() }

// ForNamespaces returns the load of some namespaces. Slots and Room are those of the whole queue.
func (l Load) ForNamespaces(counts func(namespace string) bool) Load {
	own := Load{Slots: l.Slots, Room: l.Room, Namespaces: []NamespaceLoad{}}
	for _, n := range l.Namespaces {
		if counts(n.Namespace) {
			own.Running, own.Waiting, own.Namespaces = own.Running+n.Running, own.Waiting+n.Waiting, append(own.Namespaces, n)
		}
	}
	return own
}

// HasFreeSlots reports whether a run with these limits could start at once.
func (p *Pipeline) HasFreeSlots(l backends.Limits) bool {
	l.CPU = cmp.Or(l.CPU, p.Config.Limits.CPU)
	now := p.Load()
	return now.Waiting == 0 && now.Running+min(max(SlotWeight(l), 1), now.Slots) <= now.Slots
}

func (q *Queue) load() Load {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := Load{Slots: q.Slots, Running: q.taken, Waiting: q.waiting, Room: q.room, Namespaces: []NamespaceLoad{}}
	all := map[string]NamespaceLoad{} // of all parties
	for _, p := range q.parties {
		for name, line := range p.lines {
			all[name] = NamespaceLoad{name, all[name].Running + line.taken, all[name].Waiting + len(line.waiters)}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		l.Namespaces = append(l.Namespaces, all[name])
	}
	return l
}
