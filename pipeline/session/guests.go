package session

import (
	"context"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends/guest"
)

// guests holds the agent in a session's sandbox, once somebody has needed it.
type guests struct {
	mu     sync.Mutex
	client *guest.Client
	copies chan struct{} // has a value for each copy of a file that the server holds
}

// maxCopies bounds the copies of one session's files that the server holds at the same time. Each may be as large as the sandbox's disk.
const maxCopies = 4

// Copy waits until the server may hold one more copy of a file of the session, until release.
func (s *Session) Copy(ctx context.Context) (release func(), err error) {
	select {
	case s.guests.copies <- struct{}{}:
		return sync.OnceFunc(func() { <-s.guests.copies }), nil
	case <-s.dead:
		return nil, s.ended()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Guest returns the agent in the session's sandbox, and starts one if there is none. Sessions whose sandbox does not show it have none.
func (s *Session) Guest(ctx context.Context) (*guest.Client, error) {
	if err := s.Over(); err != nil {
		return nil, err
	}
	s.guests.mu.Lock()
	defer s.guests.mu.Unlock()
	if c := s.guests.client; c != nil && !c.Ended() {
		return c, nil
	}
	c, err := guest.Start(ctx, s.Sandbox())
	if err != nil {
		if over := s.Over(); over != nil {
			return nil, over
		}
		return nil, err
	}
	s.guests.client = c
	return c, nil
}

// forget drops the agent of a sandbox that is gone.
func (g *guests) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.client = nil
}

// close waits until the agent is gone, whose sandbox is closed.
func (g *guests) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.client != nil {
		g.client.Close()
		g.client = nil
	}
}
