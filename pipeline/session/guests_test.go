package session

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/guest"
)

// stuck is a sandbox in which the agent never answers.
type stuck struct {
	backends.Sandbox
	closed chan struct{}
}

func (s *stuck) Exec(ctx context.Context, _ backends.Command, _ backends.Streams) (backends.Result, error) {
	select {
	case <-ctx.Done():
		return backends.Result{}, context.Cause(ctx)
	case <-s.closed:
		return backends.Result{}, io.ErrClosedPipe
	}
}

// TestGuestThatNeverStarts: a caller that waits for an agent can give up, nobody else waits for that caller, and the
// end of the session ends the agent.
func TestGuestThatNeverStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sandbox := &stuck{closed: make(chan struct{})}
		s := &Session{manager: &Manager{lists: guest.NewListSlots()}, sandbox: sandbox, dead: make(chan struct{}), guests: newGuests()}
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithCancelCause(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := s.Guest(t.Context()); first <- err }()
		synctest.Wait()
		go func() { _, err := s.Guest(ctx); second <- err }()
		cancel(gaveUp)
		synctest.Wait() // before the time of the start is up
		select {
		case err := <-second:
			if !errors.Is(err, gaveUp) {
				t.Errorf("got %v", err)
			}
		default:
			t.Error("who gave up waits")
		}
		s.info.State, s.info.Ended = "dead", "closed"
		close(s.dead)
		synctest.Wait()
		select {
		case err := <-first:
			if !errors.Is(err, ErrDead) {
				t.Errorf("got %v", err)
			}
		default:
			t.Error("the end of the session ends nothing")
		}
		close(sandbox.closed)
		s.guests.close()
	})
}

// TestGuestThatStartsTooLate: the time of a start is bounded.
func TestGuestThatStartsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sandbox := &stuck{closed: make(chan struct{})}
		s := &Session{manager: &Manager{lists: guest.NewListSlots()}, sandbox: sandbox, dead: make(chan struct{}), guests: newGuests()}
		if _, err := s.Guest(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		s.guests.close()
	})
}

// closing is a sandbox that calls a function while it is closed.
type closing struct {
	stuck
	during func()
}

func (c *closing) Close() error {
	c.during()
	close(c.closed)
	return nil
}

// TestGuestOfAnotherSandbox: while a dead sandbox is closed, the agent in the sandbox that takes its place stays open:
// a caller that asks for it meanwhile keeps it.
func TestGuestOfAnotherSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fresh := &stuck{closed: make(chan struct{})}
		died := &closing{stuck: stuck{closed: make(chan struct{})}}
		s := &Session{manager: &Manager{lists: guest.NewListSlots()}, sandbox: died, dead: make(chan struct{}), guests: newGuests()}
		asked := make(chan error, 1)
		died.during = func() {
			go func() { _, err := s.Guest(t.Context()); asked <- err }()
			synctest.Wait()
		}
		began := time.Now()
		if !s.replace(fresh) || time.Since(began) > 0 {
			t.Errorf("it waited for %s for who asks for the new agent", time.Since(began))
		}
		if a := s.guests.last; a == nil || a.hasExited() {
			t.Error("the new agent was dropped")
		}
		close(fresh.closed)
		if err := <-asked; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v", err)
		}
		s.info.State = "dead"
		if s.replace(died) {
			t.Error("a session that has ended got a sandbox")
		}
		s.guests.close()
	})
}
