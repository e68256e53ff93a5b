package session

import (
	"context"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
)

// guests holds the agent in a session's sandbox, which starts at its first use.
type guests struct {
	mu     sync.Mutex
	last   *agent        // nil before the first use
	copies chan struct{} // has a value for each file copy that the server holds
	lists  chan struct{} // likewise for lists of files
}

// agent is a started agent, or one that is being started.
type agent struct {
	started chan struct{} // closed when the start succeeded or failed
	client  *guest.Client
	err     error
}

// maxCopies bounds the copies of one session's files that the server holds at the same time, and maxLists its lists. A
// copy may be as large as the sandbox's disk.
const (
	maxCopies = 4
	maxLists  = 8
)

func newGuests() guests {
	return guests{copies: make(chan struct{}, maxCopies), lists: make(chan struct{}, maxLists)}
}

// AcquireCopySlot waits until the server may hold another copy of a file of the session, until release.
func (s *Session) AcquireCopySlot(ctx context.Context) (release func(), err error) {
	return s.acquireSlot(ctx, s.guests.copies)
}

// AcquireListSlot waits until the server may hold another list of the session's files, until release.
func (s *Session) AcquireListSlot(ctx context.Context) (release func(), err error) {
	return s.acquireSlot(ctx, s.guests.lists)
}

func (s *Session) acquireSlot(ctx context.Context, places chan struct{}) (release func(), err error) {
	select {
	case places <- struct{}{}:
		return sync.OnceFunc(func() { <-places }), nil
	case <-s.dead:
		return nil, s.endedError()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Guest returns the agent in the session's sandbox, and starts it if needed: all callers wait for the same start,
// which goes on if one of them gives up. The error is ErrNoAgent for a session whose sandbox does not show the agent.
func (s *Session) Guest(ctx context.Context) (*guest.Client, error) {
	if err := s.EndedError(); err != nil {
		return nil, err
	}
	if s.plan.Agent != nil && !s.plan.Agent() {
		return nil, ErrNoAgent
	}
	a := s.guests.current(s)
	select {
	case <-a.started:
	case <-s.dead:
		return nil, s.endedError()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if a.err != nil {
		if over := s.EndedError(); over != nil {
			return nil, over
		}
	}
	return a.client, a.err
}

// current returns the agent, and starts a new one if it has exited. The end of the sandbox ends the start too.
func (g *guests) current(s *Session) *agent {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != nil && !g.last.hasExited() {
		return g.last
	}
	a, sandbox := &agent{started: make(chan struct{})}, s.Sandbox()
	g.last = a
	go func() {
		defer close(a.started)
		ctx, cancel := context.WithTimeout(context.Background(), guest.StartTimeout)
		defer cancel()
		a.client, a.err = guest.Start(ctx, sandbox, s.manager.lists)
	}()
	return a
}

// hasExited reports whether the agent failed to start, or has ended.
func (a *agent) hasExited() bool {
	select {
	case <-a.started:
		return a.err != nil || a.client.Ended()
	default:
		return false
	}
}

// close drops the agent and waits until it is gone. The caller has closed its sandbox.
func (g *guests) close() {
	g.mu.Lock()
	a := g.last
	g.last = nil
	g.mu.Unlock()
	a.close()
}

// close waits until the agent is gone. The caller has closed its sandbox. A nil agent is valid.
func (a *agent) close() {
	if a == nil {
		return
	}
	if <-a.started; a.client != nil {
		a.client.Close()
	}
}
