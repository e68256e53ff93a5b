package event

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// All, given to [Bus.Subscribe], stands for every namespace. No namespace has this name.
const All = "*"

// maxBuffer bounds the memory that one subscription can ask for.
const maxBuffer = 1 << 16

// Bus hands events to whoever listens. All methods may be called concurrently, also after Close.
// A nil Bus has no listeners.
type Bus struct {
	mu      sync.RWMutex // held for reading while an event is handed out: channels close under the lock
	subs    map[*subscription]struct{}
	closed  bool
	dropped atomic.Uint64
}

type subscription struct {
	namespace string
	events    chan Event
}

// NewBus returns a bus without listeners.
func NewBus() *Bus {
	return &Bus{subs: map[*subscription]struct{}{}}
}

// Publish hands e to the listeners of its namespace, and to those of all. It never waits for them:
// a listener whose buffer is full misses e, and that is counted. Events that one goroutine
// publishes arrive in their order.
func (b *Bus) Publish(e Event) {
	if b == nil {
		return
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	if len(b.subs) == 0 {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Data = maps.Clone(e.Data) // the publisher may go on using its own
	for s := range b.subs {
		if s.namespace != All && s.namespace != e.Namespace {
			continue
		}
		select {
		case s.events <- e:
		default:
			b.dropped.Add(1)
		}
	}
}

// Subscribe returns the events of one namespace (or [All]) from now on, with room for buffer of
// them (1 to 65,536) that were not yet read. The channel is closed by cancel, which may be called
// any number of times, or by [Bus.Close]. Events that were buffered by then can still be read.
func (b *Bus) Subscribe(namespace string, buffer int) (events <-chan Event, cancel func()) {
	s := &subscription{namespace: namespace, events: make(chan Event, min(max(buffer, 1), maxBuffer))}
	if b == nil || !b.add(s) {
		close(s.events)
		return s.events, func() {}
	}
	return s.events, func() { b.remove(s) }
}

func (b *Bus) add(s *subscription) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.subs[s] = struct{}{}
	return true
}

func (b *Bus) remove(s *subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, there := b.subs[s]; there {
		delete(b.subs, s)
		close(s.events)
	}
}

// Dropped returns how many times a listener has missed an event.
func (b *Bus) Dropped() uint64 {
	if b == nil {
		return 0
	}
	return b.dropped.Load()
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
