package run

import (
	"context"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// slotLease holds the slots of a run whose code can call tools. While calls wait for their client it gives the slots
// back, so that others can run, and it acquires slots again before the code goes on.
type slotLease struct {
	run    *execution
	lock   chan struct{} // held by the call that acquires slots again
	mu     sync.Mutex
	leave  func() // gives the slots back; nil without slots
	waits  int    // number of waiting calls
	goes   int    // number of times that the code went on
	closed bool
}

// restAgain is the time that code keeps its slots while other calls of it still wait: whether it computes or waits
// for those calls can't be known.
const restAgain = time.Second

// MaxWaiting returns the number of executions of one caller that may wait for their client at the same time: each
// keeps its output and its interpreter in memory, and no slot bounds them.
func MaxWaiting(slots int) int { return max(16, 8*slots) }

// waitForClient counts a call that waits for its client, and gives the slots back.
func (s *slotLease) waitForClient(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits == 0 {
		owner := pipeline.QueueOwner(ctx, s.run.Outcome.Namespace)
		if err := s.run.Pipeline.Active.WaitForClient(s.run.Active, owner, MaxWaiting(s.run.Pipeline.Config.Queue.Slots)); err != nil {
			return err
		}
	}
	s.waits++
	s.releaseSlots("waiting")
	return nil
}

// releaseSlots gives the slots back. The caller holds the mutex.
func (s *slotLease) releaseSlots(state string) {
	if s.leave != nil {
		s.leave()
		s.leave = nil
		s.run.Active.SetState(state)
	}
}

// resume acquires slots before code goes on with the result of a call. The error is the cause of ctx.
func (s *slotLease) resume(ctx context.Context) error {
	defer s.endWait()
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
	}
	s.mu.Lock()
	held := s.leave != nil
	s.goes++
	s.mu.Unlock()
	if held || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	began := time.Now()
	leave, err := s.run.Pipeline.Config.Queue.Reacquire(ctx, s.run.Outcome.Namespace, pipeline.SlotWeight(s.run.limits.Limits),
		s.run.PublishWaiting)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave = leave
	s.run.Outcome.Timings.Queue += time.Since(began).Microseconds()
	s.run.Active.SetState("running")
	if s.closed {
		s.releaseSlots("ending")
	}
	return nil
}

// endWait removes a call from the waiting ones.
func (s *slotLease) endWait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits--; s.waits == 0 {
		s.run.Pipeline.Active.StopWaiting(s.run.Active)
		return
	}
	goes := s.goes
	time.AfterFunc(restAgain, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waits > 0 && s.goes == goes {
			s.releaseSlots("waiting")
		}
	})
}

// close gives the slots back.
func (s *slotLease) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.releaseSlots("ending")
}
