package pipeline

import (
	"cmp"
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Stopper lets whoever started a run end its program, and have what that left. It is for one run; its methods may be
// called at any time, from any goroutine.
type Stopper struct {
	Grace time.Duration // how long the program has after the first signal before it is killed; 0 kills it instead

	mu         sync.Mutex
	interrupts chan struct{} // of the program that runs or is being started, nil without one
	terminates chan struct{}
	kill       context.CancelFunc
	timer      *time.Timer
	sent       syscall.Signal
	last       time.Time // when Grace after the first signal is over
	elsewhere  func(syscall.Signal) bool
}

// ForwardTo has f take the signals: the program runs in another process, which has a Stop of its own. With nil it is in
// this one, after all.
func (s *Stopper) ForwardTo(f func(syscall.Signal) bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.elsewhere = f
}

// minReaderTimeout is how long the reader of an output is waited for at the least, also of a program that had to end.
const minReaderTimeout = 2 * time.Second

// ReaderTimeout returns how long the reader of the output is waited for when the program has ended. 0 is for as long as
// the caller likes: only where the program's time was up, or a signal was sent to it, the reader gets no more than is
// left of Grace.
func (s *Stopper) ReaderTimeout(ended string) time.Duration {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.last.IsZero():
		return max(minReaderTimeout, time.Until(s.last))
	case ended == backends.EndedTimeout:
		return max(minReaderTimeout, s.Grace)
	}
	return 0
}

// Signal sends SIGINT or SIGTERM to the program and what is in its process group. A second one kills it. It returns
// false if no program runs: then it is the run's context that ends it.
func (s *Stopper) Signal(sig syscall.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.elsewhere != nil {
		return s.startGrace(s.elsewhere(sig))
	}
	to := map[syscall.Signal]chan struct{}{syscall.SIGINT: s.interrupts, syscall.SIGTERM: s.terminates}[sig]
	if to == nil {
		return false
	}
	if s.sent != 0 || s.Grace <= 0 {
		s.kill()
	} else {
		to <- struct{}{} // which has room for it
		s.timer = time.AfterFunc(s.Grace, s.kill)
	}
	s.sent = cmp.Or(s.sent, sig)
	return s.startGrace(true)
}

// startGrace records when the first signal that was taken has been followed by Grace.
func (s *Stopper) startGrace(taken bool) bool {
	if taken && s.last.IsZero() {
		s.last = time.Now().Add(s.Grace)
	}
	return taken
}

// AttachProgram has the signals sent to the program of these streams, and kill called when its time is up. A signal that comes
// while the program is being started is sent as soon as it has: it may have run for a moment before that is known here.
func (s *Stopper) AttachProgram(streams *backends.Streams, kill context.CancelFunc) {
	if s == nil {
		return
	}
	interrupts, terminates := make(chan struct{}, 1), make(chan struct{}, 1)
	streams.Interrupt, streams.Terminate = interrupts, terminates
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupts, s.terminates, s.kill = interrupts, terminates, kill
}

// DetachProgram records that the program has ended. It returns the first signal that was sent to it, 0 if none was.
func (s *Stopper) DetachProgram() syscall.Signal {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupts, s.terminates = nil, nil
	if s.timer != nil {
		s.timer.Stop()
	}
	return s.sent
}
