package pipeline

import (
	"fmt"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
)

// maxWaiting is how many bytes of displays wait for a caller who is slow. One waits however large it is.
const maxWaiting = 8 << 20

// shows hands what a program shows to its caller, in a goroutine of its own: a caller who is slow must not hold up the program. What comes
// while too much waits is left out, and said to be.
type shows struct {
	to        func(kernel.Bundle) // nil is nobody
	mu        sync.Mutex
	waiting   []kernel.Bundle
	bytes     int           // of these
	lost      int           // displays that are left out behind these
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
			for b, ok := s.take(); ok; b, ok = s.take() {
				to(b)
			}
		}
	}()
	return s
}

func (s *shows) take() (b kernel.Bundle, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.waiting) > 0:
		b, s.waiting[0] = s.waiting[0], nil
		s.waiting = s.waiting[1:]
		s.bytes -= sizeOf(b)
	case s.lost > 0:
		b = kernel.Bundle{"text/plain": fmt.Sprintf("%d displays are left out: they came faster than they were read", s.lost)}
		s.lost = 0
	}
	return b, b != nil
}

func (s *shows) add(b kernel.Bundle) {
	if s.to == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if size := sizeOf(b); s.lost > 0 || s.bytes > 0 && s.bytes+size > maxWaiting {
		s.lost++
	} else {
		s.waiting, s.bytes = append(s.waiting, b), s.bytes+size
	}
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// close is called when nothing more is added.
func (s *shows) close() { close(s.more) }
