package event

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// All, as a namespace to listen to, stands for every one. No namespace has this name.
const All = "*"

// maxBuffer bounds the memory that one subscription can ask for.
const maxBuffer = 1 << 16

// Bus hands events to whoever listens, and remembers the last 1,000 (less, where they are large: 4
// MiB). All methods may be called concurrently, also after Close. A nil Bus has no listeners.
type Bus struct {
	mu     sync.Mutex // held while an event is handed out, so that all see the same order
	seq    uint64
	last   ring
	subs   map[*Subscription]struct{}
	closed bool
}

// Filter selects events.
type Filter struct {
	Namespace string   // or All
	Kinds     []string // names of events; nil is all
}

func (f Filter) matches(e Event) bool {
	return (f.Namespace == All || f.Namespace == e.Namespace) && (f.Kinds == nil || slices.Contains(f.Kinds, e.Name))
}

// Subscription is one listener's. What its buffer has no room for, it misses.
type Subscription struct {
	bus    *Bus
	filter Filter
	events chan Event
	missed atomic.Uint64
}

// Events returns the events from the subscription's beginning on, in the order of their numbers.
// The channel is closed by Cancel and by [Bus.Close]; what was buffered by then can still be read.
func (s *Subscription) Events() <-chan Event { return s.events }

// Missed returns how many events that it wanted this subscription has missed so far.
func (s *Subscription) Missed() uint64 { return s.missed.Load() }

// Cancel ends the subscription. It may be called any number of times.
func (s *Subscription) Cancel() {
	b := s.bus
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, there := b.subs[s]; there {
		delete(b.subs, s)
		close(s.events)
	}
}

// NewBus returns a bus without listeners.
func NewBus() *Bus {
	return &Bus{subs: map[*Subscription]struct{}{}}
}

// Publish gives e its number, and hands it to those who want it. It never waits for them: a listener
// whose buffer is full misses e, and that is counted. Events that one goroutine publishes arrive in
// their order.
func (b *Bus) Publish(e Event) {
	if b == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	var size int
	e.Data, size = bounded(e.Data) // the publisher may go on using its own
	size += perName + len(e.Run) + len(e.Namespace)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.seq++
	e.Seq = b.seq
	b.last.add(e, size)
	for s := range b.subs {
		if !s.filter.matches(e) {
			continue
		}
		select {
		case s.events <- e:
		default:
			s.missed.Add(1)
		}
	}
}

// Listen returns the remembered events after number since that f wants, and those from now on, with
// room for buffer of them (1 to 65,536) that were not yet read: none is in both, and none between.
// forgotten is how many events after since, of whatever kind and namespace, are not remembered any
// more. A number that the bus has not reached is another bus's, and counts as 0.
func (b *Bus) Listen(f Filter, buffer int, since uint64) (s *Subscription, before []Event, forgotten uint64) {
	s = &Subscription{bus: b, filter: f, events: make(chan Event, min(max(buffer, 1), maxBuffer))}
	if b == nil {
		close(s.events)
		return s, nil, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if since > b.seq {
		since = 0
	}
	before, forgotten = b.last.since(since, f)
	if b.closed {
		close(s.events)
	} else {
		b.subs[s] = struct{}{}
	}
	return s, before, forgotten
}

// Close ends all subscriptions. What is published later goes nowhere.
func (b *Bus) Close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for s := range b.subs {
		close(s.events)
	}
	clear(b.subs)
}
