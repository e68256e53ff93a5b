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

// SlotWeight returns the number of queue slots for a run with these limits: the cores that it may use.
func SlotWeight(l backends.Limits) int { return int(math.Ceil(l.CPU)) }

// ErrBusy is the error of a full queue. Nothing was started; a later retry may work.
var ErrBusy = errors.New("too many runs are waiting")

// Queue bounds the concurrent runs, and shares its slots fairly: identities take turns, each identity's namespaces
// take turns, and a namespace is first come, first served. A namespace of callers without an identity counts as an
// identity. A run that has held its slots for longer than SlotTime keeps them, but no longer blocks others: see
// [Queue.mayExceed]. The number of waiting runs is bounded too: if the queue is full, the party with the most waiting
// runs loses its newest to parties with fewer. All methods may be called concurrently.
type Queue struct {
	mu        sync.Mutex
	Slots     int
	room      int // maximum of waiting runs
	taken     int // taken slots; may exceed Slots
	waiting   int // number of waiting runs
	returning int // those that have run before
	parties   map[string]*party
	turns     []*party // with waiting runs; the first is next
	running   []*ticket
	aging     *time.Timer // admits again when a run has held its slots for SlotTime
}

// SlotTime is the time for which a run with slots blocks others. Most runs are shorter, so a namespace below its
// share waits no longer.
const SlotTime = 500 * time.Millisecond

// A party shares the queue with others: an identity, or a namespace of callers without one.
type party struct {
	owner string
	taken int              // slots
	lines map[string]*line // by namespace
	turns []*line          // with waiting runs; the first is next
}

// A line holds the slots and waiting runs of one party in one namespace.
type line struct {
	party     *party
	namespace string
	taken     int // slots
	waiters   []*ticket
}

// A ticket receives one answer: nil when its run may begin, or an error.
type ticket struct {
	line      *line
	weight    int
	returning bool // its run continues
	since     time.Time
	answer    chan error // buffered, for the one answer
}

// NewQueue returns a queue that admits runs with a total weight of slots, and lets room more wait. At least one can
// run.
func NewQueue(slots, room int) *Queue {
	return &Queue{Slots: max(slots, 1), room: max(room, 0), parties: map[string]*party{}}
}

// defaultSlots returns the default number of slots: one per core, and at least four, since many programs sleep.
func defaultSlots(cores int) int { return max(cores, 4) }

// maxSlots returns the maximum of taken slots while long runs and others' shares overlap.
func (q *Queue) maxSlots() int { return q.Slots + max(2*q.Slots, 4) }

// QueueOwner returns the name of the party of ctx.
func QueueOwner(ctx context.Context, namespace string) string {
	return cmp.Or(CallerFrom(ctx).Identity, "namespace "+namespace)
}

// Acquire waits for slots and returns a function that releases them, which may be called more than once. A weight
// below one counts as one, and a weight above all slots as all of them. onWait, if set, is called before the first
// wait, with the number of waiting runs.
//
// The error is ErrBusy or the cause of ctx; the caller then holds no slots and has left the queue.
func (q *Queue) Acquire(ctx context.Context, namespace string, weight int, onWait func(waiting int)) (leave func(), err error) {
	return q.acquire(ctx, namespace, weight, false, onWait)
}

// Reacquire is Acquire for a run that gave its slots back and continues: it is never refused, and precedes new runs
// of its namespace. Its caller bounds the number of such runs. The error is the cause of ctx.
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

// join queues a ticket and returns the number of waiting runs, or 0 if its run may begin at once.
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
		return 0, fmt.Errorf("%w: %d slots are taken and %d runs wait", ErrBusy, q.taken, q.waiting)
	}
	last.answer <- fmt.Errorf("%w: %q has the most places in the queue, and others wait", ErrBusy, last.line.namespace)
	return q.waiting, nil
}

// enqueue adds a ticket to its line: a returning one before the new ones, else at the end.
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

// countNew counts the waiters of a line that have not run yet. They are at the end.
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

// ticketToEvict returns the ticket to drop if there is no room for t: the newest of the longest line of the party
// with the most waiters, and t itself unless another party has more. Otherwise one namespace, or one identity with
// many of them, could fill the queue and lock all others out.
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

// abandon removes a ticket whose caller gave up, or releases the slots that it was granted at the same moment.
func (q *Queue) abandon(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.removeWaiter(t):
	case <-t.answer == nil: // granted meanwhile
		q.releaseSlots(t)
	}
	q.admit() // the next ticket may be lighter
}

// releaseAndAdmit releases a ticket's slots, and admits waiting runs.
func (q *Queue) releaseAndAdmit(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.releaseSlots(t)
	q.admit()
}

// removeWaiter removes t from its line and reports whether it was waiting.
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

// moveToEnd returns list with its element e, if present, moved to the end.
func moveToEnd[E comparable](list []E, e E) []E {
	if slices.Contains(list, e) {
		list = append(removeElement(list, e), e)
	}
	return list
}

// dropEmptyLine drops a line without slots and waiters.
func (q *Queue) dropEmptyLine(l *line) {
	if l.taken == 0 && len(l.waiters) == 0 {
		delete(l.party.lines, l.namespace)
	}
	if len(l.party.lines) == 0 {
		delete(q.parties, l.party.owner)
	}
}

// admit admits all runs that may start now.
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

// nextTicket returns the ticket that may run now, or nil. A heavy ticket at the front blocks lighter ones behind it,
// or it would never be admitted; but while it waits for long runs, it does not block lines below their share.
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

// mayExceed reports whether a line may take slots beside runs that have held theirs for longer than SlotTime. All of
// these must hold: the line has no slots yet, or its party is below its share; the total stays within maxSlots; a
// party with slots takes at most as many as it leaves to others; and half of the extra slots are reserved for
// namespaces without slots, or one tenant could take all with many identities.
func (q *Queue) mayExceed(l *line, weight int) bool {
	p := l.party
	share := l.taken == 0 || (p.taken+weight)*len(q.parties) <= q.Slots
	left := q.maxSlots() - q.taken - weight
	if left < (q.maxSlots()-q.Slots)/2 && q.slotsTakenIn(l.namespace) > 0 {
		return false
	}
	return share && left >= 0 && (p.taken == 0 || p.taken+weight <= left)
}

// slotsTakenIn returns the slots that all parties hold in a namespace.
func (q *Queue) slotsTakenIn(namespace string) (slots int) {
	for _, p := range q.parties {
		if l := p.lines[namespace]; l != nil {
			slots += l.taken
		}
	}
	return slots
}

// slotsOfYoungRuns returns the slots of the runs that have held theirs for less than SlotTime.
func (q *Queue) slotsOfYoungRuns() (slots int) {
	for _, t := range slices.Backward(q.running) {
		if time.Since(t.since) >= SlotTime {
			break
		}
		slots += t.weight
	}
	return slots
}

// scheduleAdmission schedules admit for the time when the next run has held its slots for SlotTime, if runs wait.
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

// assignSlots assigns slots to a ticket. The caller holds the lock, as for releaseSlots.
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

// Load counts the slots and the waiting requests of a queue. A run takes one slot, or more if it may use several
// cores.
type Load struct {
	Slots      int             `json:"slots"`
	Running    int             `json:"running"` // taken slots; more than Slots while long runs overlap with others' shares
	Waiting    int             `json:"waiting"` // requests
	Room       int             `json:"room"`    // maximum of waiting requests
	Namespaces []NamespaceLoad `json:"namespaces"`
}

// NamespaceLoad counts the slots and the waiting requests of one namespace.
type NamespaceLoad struct {
	Namespace string `json:"namespace"`
	Running   int    `json:"running"` // slots
	Waiting   int    `json:"waiting"` // requests
}

// Load returns the load of the queue: namespaces by name, without idle ones.
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
