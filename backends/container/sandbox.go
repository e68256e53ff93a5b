package container

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
)

// sandbox is the init's sandbox, completed by the layers and limits of its container.
type sandbox struct {
	backends.Sandbox
	handle   *initHandle
	layers   []backends.Layer // provided by the engine
	cgroup   backends.Layer
	language string
	proposal *proposal // of the spec's workspace; nil without one
	warm     bool      // the container came from the pool
	cold     string    // why it did not

	refill func() // refills the pool, once: after the first program, or when the sandbox is closed

	mu     sync.Mutex
	limits backends.Limits // in force

	keep    bool         // the spec's: processes may outlive a command
	running atomic.Int32 // commands, including those with an unknown end
	closing atomic.Bool
	once    sync.Once
	err     error
}

// Exec implements [backends.Sandbox].
func (s *sandbox) Exec(ctx context.Context, cmd backends.Command, streams backends.Streams) (backends.Result, error) {
	started := time.Now()
	var held atomic.Pointer[backends.Containment]
	begun := streams.Begun
	streams.Begun = func(c backends.Containment) {
		c = s.completeContainment(c)
		held.Store(&c)
		if begun != nil {
			begun(c)
		}
	}
	s.running.Add(1)
	defer s.refill()
	r, err := s.Sandbox.Exec(ctx, cmd, streams)
	if err == nil {
		s.running.Add(-1)
	}
	r.Warm, r.Cold = s.warm, s.cold
	if errors.Is(err, call.ErrLost) {
		if c := held.Load(); c != nil {
			r.Contained = *c
			r.Wall = time.Since(started)
			return s.cutResult(ctx, r)
		}
		return r, fmt.Errorf("the container of %s is gone: %w", s.handle.plan.title, s.lostReason())
	}
	if err == nil {
		r.Contained = s.completeContainment(r.Contained)
	}
	return r, err
}

// cutResult completes the result of a program that was running when its container ended.
func (s *sandbox) cutResult(ctx context.Context, r backends.Result) (backends.Result, error) {
	r.ExitCode, r.Signal = 128+9, "SIGKILL"
	switch {
	case ctx.Err() != nil:
		r.Ended = backends.EndedCancelled
	case s.closing.Load():
		r.Ended = backends.EndedSignal
	default:
		if why := s.lostReason(); !errors.Is(why, errMemory) {
			return backends.Result{}, fmt.Errorf("the program's container ended while it ran: %w", why)
		}
		r.Ended, r.Limit = backends.EndedOOM, "ram"
	}
	return r, nil
}

var errMemory = errors.New("the kernel killed it: out of memory")

// lostReason asks the engine for the reason of the container's end.
func (s *sandbox) lostReason() error {
	if s.closing.Load() {
		return errors.New("the sandbox is closed")
	}
	const exitTimeout = 10 * time.Second // for an engine that restarts
	select {
	case <-s.handle.ended:
	case <-time.After(exitTimeout):
		return fmt.Errorf("its init hung up, and %s says that it still runs", s.handle.backend.Name())
	}
	switch {
	case s.handle.waitErr != nil:
		return fmt.Errorf("%s can't say why: %w", s.handle.backend.Name(), s.handle.waitErr)
	case s.handle.exit.OOM:
		return errMemory
	}
	return errors.New(s.handle.describeExit())
}

// completeContainment completes the init's report of a program's containment.
func (s *sandbox) completeContainment(inner backends.Containment) backends.Containment {
	return backends.Containment{Backend: s.handle.backend.Name(), Profile: hardened, Layers: mergeLayers(s.layers, s.cgroup, inner.Layers),
		PID: inner.PID}
}

// Limit implements [backends.Sandbox]. If the engine can't change limits, only RAM can be changed, which the init
// watches.
func (s *sandbox) Limit(l backends.Limits) (backends.Limits, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := backends.Limits{RAM: l.RAM}
	if s.handle.plan.Limits {
		next.CPU, next.Processes = l.CPU, l.Processes
	}
	next = next.WithFallback(s.limits)
	if s.handle.plan.Limits && next != s.limits {
		if err := s.update(next); err != nil {
			return s.limits, err
		}
	}
	if _, err := s.Sandbox.Limit(l); err != nil {
		if s.handle.plan.Limits && next != s.limits {
			err = errors.Join(err, s.update(s.limits))
		}
		return s.limits, err
	}
	if s.handle.dir != nil {
		_ = s.handle.dir.writeVisible(visible(s.handle.plan.Info, next)) // otherwise the program sees the old ones
	}
	s.limits = next
	return next, nil
}

func (s *sandbox) update(l backends.Limits) error {
	ctx, cancel := context.WithTimeout(s.handle.backend.ctx, engineTimeout)
	defer cancel()
	if err := s.handle.backend.engine.Update(ctx, s.handle.id, resources(s.language, l)); err != nil {
		return fmt.Errorf("change the limits of a container with %s: %w", s.handle.backend.Name(), err)
	}
	return nil
}

// programsExited reports that no program is alive in a container whose PID 1 has been killed: the last result was
// complete.
func (s *sandbox) programsExited() bool {
	return s.handle.peer != nil && !s.keep && s.running.Load() == 0
}

// Close implements [backends.Sandbox]. When it returns, no program is running and PID 1 has been killed. The kernel
// still dismantles the namespaces and the engine removes the container, for which Backend.Close waits. If a program
// may be alive, Close waits for the end of PID 1, which comes after that of all others.
func (s *sandbox) Close() error {
	s.once.Do(func() {
		s.closing.Store(true)
		defer s.refill()
		if err := s.Sandbox.Close(); err != nil && !errors.Is(err, call.ErrLost) {
			s.err = err
		}
		s.handle.kill()
		b := s.handle.backend
		const graceful = 3 * time.Second
		if s.programsExited() || s.handle.waitDead(graceful) {
			b.removeLater(s.handle)
		} else {
			s.err = errors.Join(s.err, s.handle.remove())
		}
		b.mu.Lock()
		delete(b.running, s)
		b.mu.Unlock()
	})
	return s.err
}
