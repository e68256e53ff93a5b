package event

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// All, as the namespace of a Filter, matches every namespace. No namespace has this name.
const All = "*"

// maxBuffer bounds the buffer of one subscription, in events.
const maxBuffer = 1 << 16

// Bus passes events to its listeners, and remembers the last 1,000 of them, up to 4 MiB. All methods may be called
// concurrently, also after Close. A nil Bus has no listeners.
type Bus struct {
	mu     sync.Mutex // held during Publish, so that all listeners see the same order
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

// Subscription is a listener. If its buffer is full, it misses events.
type Subscription struct {
	bus    *Bus
	filter Filter
	events chan Event
	missed atomic.Uint64
}

// Events returns the events from the subscription's beginning on, in the order of their numbers. Cancel and
// [Bus.Close] close the channel; buffered events can still be read.
func (s *Subscription) Events() <-chan Event { return s.events }

// Missed returns the number of matching events that this subscription has missed.
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

// Publish numbers e, and sends it to its listeners without waiting: a listener with a full buffer misses e, and that
// is counted. Events of one goroutine arrive in order.
func (b *Bus) Publish(e Event) {
	if b == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	var size int
	e.Data, size = bounded(e.Data) // the publisher may modify its own map later
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

// Listen subscribes to events that match f, with a buffer of 1 to 65,536, and returns the remembered matching events
// after number since, without gaps or duplicates. forgotten is the number of events after since, of all kinds and
// namespaces, that are no longer remembered. A number that the bus has not reached is from another bus, and counts as
// 0.
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

// Close ends all subscriptions. Later events are dropped.
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
