package door

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// Slots bound work that is expensive or has no end of its own: in all, and per client. Its methods may be called
// concurrently.
type Slots struct {
	verb            string
	all, own, spare int
	life            context.Context
	stop            context.CancelFunc

	mu      sync.Mutex
	n       int
	by      map[string]int
	freed   chan struct{} // closed when a slot is given back
	running sync.WaitGroup
}

// NewSlots returns slots for work that the verb names, such as "listen": all in total, and own per client. The last
// spare ones are for the client "", the machine's own command line, which has no other bound.
func NewSlots(verb string, all, own, spare int) *Slots {
	s := &Slots{verb: verb, all: all, own: own, spare: spare, by: map[string]int{}, freed: make(chan struct{})}
	s.life, s.stop = context.WithCancel(context.Background())
	return s
}

// Acquire takes a slot for a client until release. The returned context ends with ctx, with Stop and with release.
// The error, a *[Refused], is that there is no room, or that the server is shutting down.
func (s *Slots) Acquire(ctx context.Context, client string) (_ context.Context, release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := s.all
	if client != "" {
		room -= s.spare
	}
	switch {
	case s.life.Err() != nil:
		return nil, nil, Refuse(http.StatusServiceUnavailable, "the server is shutting down")
	case s.n >= room:
		return nil, nil, Refuse(http.StatusServiceUnavailable, fmt.Sprintf("%d clients %s already", s.n, s.verb))
	case client != "" && s.by[client] >= s.own:
		return nil, nil, Refuse(http.StatusServiceUnavailable, fmt.Sprintf("%d clients of %s %s already", s.by[client], client, s.verb))
	}
	s.n++
	s.by[client]++
	s.running.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	unwatch := context.AfterFunc(s.life, cancel)
	return ctx, sync.OnceFunc(func() {
		unwatch()
		cancel()
		s.release(client)
	}), nil
}

func (s *Slots) release(client string) {
	defer s.running.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n--
	if s.by[client]--; s.by[client] == 0 {
		delete(s.by, client)
	}
	close(s.freed)
	s.freed = make(chan struct{})
}

// WaitAcquire is Acquire, but waits for room until ctx ends.
func (s *Slots) WaitAcquire(ctx context.Context, client string) (context.Context, func(), error) {
	for {
		s.mu.Lock()
		freed := s.freed
		s.mu.Unlock()
		if under, release, err := s.Acquire(ctx, client); err == nil || s.life.Err() != nil {
			return under, release, err
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// Taken returns the number of taken slots.
func (s *Slots) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// Stop ends the contexts of all slots, and refuses new ones.
func (s *Slots) Stop() {
	s.mu.Lock() // so that no slot is taken after Stop
	defer s.mu.Unlock()
	s.stop()
}

// Wait waits until all slots are released.
func (s *Slots) Wait() { s.running.Wait() }
