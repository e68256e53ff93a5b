package output

import (
	"fmt"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
)

// DisplayOverhead is what a display takes if it is empty, in bytes.
const DisplayOverhead = 512

// SizeOf returns the bytes that a display counts for.
func SizeOf(b kernel.Bundle) int {
	size := DisplayOverhead
	for form, data := range b {
		size += len(form) + len(data)
	}
	return size
}

// maxWaiting is how many bytes of displays wait for a caller who is slow. One waits however large it is.
const maxWaiting = 8 << 20

// DisplayQueue hands what a program shows to its caller, in a goroutine of its own: a caller who is slow must not hold up the
// program. What comes while too much waits is left out, and said to be.
type DisplayQueue struct {
	to        func(kernel.Bundle) // nil is nobody
	Mu        sync.Mutex
	Waiting   []kernel.Bundle
	bytes     int           // of these
	Lost      int           // displays that are left out behind these
	more      chan struct{} // has a value while something waits; closed when nothing more comes
	Delivered chan struct{} // closed when the caller has it all
}

// NewDisplayQueue returns what hands displays to a caller; nil is nobody.
func NewDisplayQueue(to func(kernel.Bundle)) *DisplayQueue {
	s := &DisplayQueue{to: to, more: make(chan struct{}, 1), Delivered: make(chan struct{})}
	if to == nil {
		close(s.Delivered)
		return s
	}
	go func() {
		defer close(s.Delivered)
		for range s.more {
			for b, ok := s.nextDisplay(); ok; b, ok = s.nextDisplay() {
				to(b)
			}
		}
	}()
	return s
}

func (s *DisplayQueue) nextDisplay() (b kernel.Bundle, ok bool) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	switch {
	case len(s.Waiting) > 0:
		b, s.Waiting[0] = s.Waiting[0], nil
		s.Waiting = s.Waiting[1:]
		s.bytes -= SizeOf(b)
	case s.Lost > 0:
		b = kernel.Bundle{"text/plain": fmt.Sprintf("%d displays are left out: they came faster than they were read", s.Lost)}
		s.Lost = 0
	}
	return b, b != nil
}

// Add hands on one display.
func (s *DisplayQueue) Add(b kernel.Bundle) {
	if s.to == nil {
		return
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if size := SizeOf(b); s.Lost > 0 || s.bytes > 0 && s.bytes+size > maxWaiting {
		s.Lost++
	} else {
		s.Waiting, s.bytes = append(s.Waiting, b), s.bytes+size
	}
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// Close is called when nothing more is added.
func (s *DisplayQueue) Close() { close(s.more) }
