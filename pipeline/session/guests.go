package session

import (
	"context"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
)

// guests holds the agent in a session's sandbox, once somebody has needed it.
type guests struct {
	mu       sync.Mutex
	client   *guest.Client
	starting *starting     // nil while nobody waits for an agent
	copies   chan struct{} // has a value for each copy of a file that the server holds
	lists    chan struct{} // likewise, of lists of files
}

// starting is the start of an agent, for all who wait for it.
type starting struct {
	sandbox backends.Sandbox
	done    chan struct{} // closed when it is over
	client  *guest.Client
	err     error
}

// maxCopies bounds the copies of one session's files that the server holds at the same time, and maxLists its lists. A copy may be as large
// as the sandbox's disk.
const (
	maxCopies = 4
	maxLists  = 8
)

func newGuests() guests {
	return guests{copies: make(chan struct{}, maxCopies), lists: make(chan struct{}, maxLists)}
}

// Copy waits until the server may hold one more copy of a file of the session, until release.
func (s *Session) Copy(ctx context.Context) (release func(), err error) {
	return s.place(ctx, s.guests.copies)
}

// Listing waits until the server may hold one more list of the session's files, until release.
func (s *Session) Listing(ctx context.Context) (release func(), err error) {
	return s.place(ctx, s.guests.lists)
}

func (s *Session) place(ctx context.Context, places chan struct{}) (release func(), err error) {
	select {
	case places <- struct{}{}:
		return sync.OnceFunc(func() { <-places }), nil
	case <-s.dead:
		return nil, s.ended()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Guest returns the agent in the session's sandbox, and starts one if there is none: one start is for all who wait for it, and goes on when
// one of them gives up. The error is ErrNoAgent for a session whose sandbox does not show it.
func (s *Session) Guest(ctx context.Context) (*guest.Client, error) {
	if err := s.Over(); err != nil {
		return nil, err
	}
	if s.agent != nil && !s.agent() {
		return nil, ErrNoAgent
	}
	c, st := s.guests.current(s)
	if c != nil {
		return c, nil
	}
	select {
	case <-st.done:
	case <-s.dead:
		return nil, s.ended()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if st.err != nil {
		if over := s.Over(); over != nil {
			return nil, over
		}
	}
	return st.client, st.err
}

// current returns the agent, or the start of one.
func (g *guests) current(s *Session) (*guest.Client, *starting) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.client != nil && !g.client.Ended() {
		return g.client, nil
	}
	if g.starting == nil {
		g.starting = &starting{sandbox: s.Sandbox(), done: make(chan struct{})}
		go g.start(g.starting, s.manager.lists)
	}
	return nil, g.starting
}

// start starts an agent. The end of its sandbox ends that, too.
func (g *guests) start(st *starting, large guest.Places) {
	ctx, cancel := context.WithTimeout(context.Background(), guest.StartTimeout)
	defer cancel()
	st.client, st.err = guest.Start(ctx, st.sandbox, large)
	g.mu.Lock()
	defer g.mu.Unlock()
	defer close(st.done)
	if g.starting != st { // the sandbox is gone
		if st.client != nil {
			go st.client.Close()
		}
		return
	}
	g.starting = nil
	if st.err == nil {
		g.client = st.client
	}
}

// forget drops the agent of a sandbox that is gone.
func (g *guests) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.client, g.starting = nil, nil
}

// close waits until the agent is gone, whose sandbox is closed.
func (g *guests) close() {
	g.mu.Lock()
	st, c := g.starting, g.client
	g.client = nil
	g.mu.Unlock()
	if st != nil {
		<-st.done
		c = st.client
	}
	if c != nil {
		c.Close()
	}
}
