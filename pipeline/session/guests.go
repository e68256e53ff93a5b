package session

import (
	"context"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
)

// guests holds the agent in a session's sandbox, once somebody has needed it.
type guests struct {
	mu     sync.Mutex
	last   *agent        // nil while nobody has needed one
	copies chan struct{} // has a value for each copy of a file that the server holds
	lists  chan struct{} // likewise, of lists of files
}

// agent is one that was started, or is being started, for all who wait for it.
type agent struct {
	started chan struct{} // closed when that is over
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

// AcquireCopySlot waits until the server may hold one more copy of a file of the session, until release.
func (s *Session) AcquireCopySlot(ctx context.Context) (release func(), err error) {
	return s.acquireSlot(ctx, s.guests.copies)
}

// AcquireListSlot waits until the server may hold one more list of the session's files, until release.
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

// Guest returns the agent in the session's sandbox, and starts one if there is none: one start is for all who wait for
// it, and goes on when one of them gives up. The error is ErrNoAgent for a session whose sandbox does not show it.
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

// current returns the agent, which is started if there is none that could still be used. The end of its sandbox ends
// that, too.
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

// hasExited reports whether the agent could not be started, or has ended.
func (a *agent) hasExited() bool {
	select {
	case <-a.started:
		return a.err != nil || a.client.Ended()
	default:
		return false
	}
}

// close drops the agent, whose sandbox is closed, and waits until it is gone.
func (g *guests) close() {
	g.mu.Lock()
	a := g.last
	g.last = nil
	g.mu.Unlock()
	a.close()
}

// close waits until the agent is gone, whose sandbox is closed. There may be none.
func (a *agent) close() {
	if a == nil {
		return
	}
	if <-a.started; a.client != nil {
		a.client.Close()
	}
}
