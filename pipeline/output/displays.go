package output

import (
	"fmt"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
)

// DisplayOverhead is the size that counts for an empty display, in bytes.
const DisplayOverhead = 512

// SizeOf returns the size that counts for a display, in bytes.
func SizeOf(b kernel.Bundle) int {
	size := DisplayOverhead
	for form, data := range b {
		size += len(form) + len(data)
	}
	return size
}

// maxWaiting bounds the displays that wait for a slow caller, in bytes. One display of any size may wait.
const maxWaiting = 8 << 20

// DisplayQueue passes a program's displays to its caller, in a goroutine of its own, so that a slow caller does not
// block the program. If too much waits, it drops displays and reports how many.
type DisplayQueue struct {
	to        func(kernel.Bundle) // nil discards displays
	Mu        sync.Mutex
	Waiting   []kernel.Bundle
	bytes     int           // size of Waiting
	Lost      int           // displays dropped after Waiting
	more      chan struct{} // has a value while displays wait; closed by Close
	Delivered chan struct{} // closed when the caller has all displays
}

// NewDisplayQueue returns a queue that calls to for each display; nil discards them.
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
		b = kernel.Bundle{"text/plain": fmt.Sprintf("%d displays are omitted: they came faster than they were read", s.Lost)}
		s.Lost = 0
	}
	return b, b != nil
}

// Add appends a display.
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

// Close marks the end of the displays.
func (s *DisplayQueue) Close() { close(s.more) }
