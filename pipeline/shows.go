package pipeline

import (
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
)

// shows hands what a program shows to its caller, in a goroutine of its own: a caller who is slow must not hold up the program. How much may
// wait is what a program may show.
type shows struct {
	to        func(kernel.Bundle) // nil is nobody
	mu        sync.Mutex
	waiting   []kernel.Bundle
	more      chan struct{} // has a value while something waits; closed when nothing more comes
	delivered chan struct{} // closed when the caller has it all
}

func newShows(to func(kernel.Bundle)) *shows {
	s := &shows{to: to, more: make(chan struct{}, 1), delivered: make(chan struct{})}
	if to == nil {
		close(s.delivered)
		return s
	}
	go func() {
		defer close(s.delivered)
		for range s.more {
			for _, b := range s.take() {
				to(b)
			}
		}
	}()
	return s
}

func (s *shows) take() []kernel.Bundle {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.waiting
	s.waiting = nil
	return all
}

func (s *shows) add(b kernel.Bundle) {
	if s.to == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, b)
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// close is called when nothing more is added.
func (s *shows) close() { close(s.more) }
