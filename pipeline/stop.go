package pipeline

import (
	"cmp"
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Stopper lets the caller of a run stop its program and keep the result. It is for one run; its methods may be called
// at any time, from any goroutine.
type Stopper struct {
	Grace time.Duration // time between the first signal and the kill; 0 kills at once

	mu         sync.Mutex
	interrupts chan struct{} // signals for the running or starting program; nil without one
	terminates chan struct{}
	kill       context.CancelFunc
	timer      *time.Timer
	sent       syscall.Signal
	last       time.Time // end of Grace after the first signal
	elsewhere  func(syscall.Signal) bool
}

// ForwardTo sends the signals to f: the program runs in another process, with a Stopper of its own. nil means that it
// runs in this one.
func (s *Stopper) ForwardTo(f func(syscall.Signal) bool) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.elsewhere = f
}

// minReaderTimeout is the minimum time for the reader of an output after the program's end.
const minReaderTimeout = 2 * time.Second

// ReaderTimeout returns the time for the reader of the output after the program's end; 0 is unlimited. Only if the
// program timed out or got a signal, the reader is limited to the rest of Grace.
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

// Signal sends SIGINT or SIGTERM to the program and its process group. A second signal kills it. It returns false if
// no program runs: then the context of the run must end it.
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
		to <- struct{}{} // buffered, so it does not block
		s.timer = time.AfterFunc(s.Grace, s.kill)
	}
	s.sent = cmp.Or(s.sent, sig)
	return s.startGrace(true)
}

// startGrace records when Grace ends, at the first signal that was accepted, and returns accepted.
func (s *Stopper) startGrace(accepted bool) bool {
	if accepted && s.last.IsZero() {
		s.last = time.Now().Add(s.Grace)
	}
	return accepted
}

// AttachProgram connects the signals to the program of these streams; kill is called when Grace is over. A signal
// that arrives while the program starts is sent once it has started, which may be a moment before that is known here.
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

// DetachProgram records that the program has ended. It returns the first signal that was sent, or 0.
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
