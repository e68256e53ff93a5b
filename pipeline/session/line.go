package session

import (
	"context"
	"slices"
)

// A Place is a caller's place in the lines of sessions: callers have a session one after another, in the order in which
// they took their places. Who uses a session without one stands in line for that alone.
type Ticket struct {
	manager *Manager
	tickets map[*Session]*sessionTicket
	users   int // that have not left it; guarded by the manager's lines
}

// sessionTicket is one place in the line of one session.
type sessionTicket struct{ first chan struct{} } // closed when nobody is before it

// Enqueue takes the last place in each of the lines, in all at once: so no two places wait for each other. Leave gives it
// up.
func (k *Manager) Enqueue(in ...*Session) *Ticket {
	p := &Ticket{manager: k, tickets: map[*Session]*sessionTicket{}, users: 1}
	k.lines.Lock()
	defer k.lines.Unlock()
	for _, s := range in {
		if p.tickets[s] == nil {
			p.tickets[s] = s.appendTicket()
		}
	}
	return p
}

// appendTicket appends a ticket. The manager's lines are locked.
func (s *Session) appendTicket() *sessionTicket {
	t := &sessionTicket{make(chan struct{})}
	if s.line = append(s.line, t); len(s.line) == 1 {
		close(t.first)
	}
	return t
}

// removeTicket removes a ticket. The manager's lines are locked.
func (s *Session) removeTicket(t *sessionTicket) {
	i := slices.Index(s.line, t)
	if s.line = slices.Delete(s.line, i, i+1); i == 0 && len(s.line) > 0 {
		close(s.line[0].first)
	}
}

// RetainTicket returns the place that a context has, for one more who leaves it, or nil if it has none any more.
func RetainTicket(ctx context.Context) *Ticket {
	p, ok := ctx.Value(placeKey{}).(*Ticket)
	if !ok {
		return nil
	}
	p.manager.lines.Lock()
	defer p.manager.lines.Unlock()
	if p.users == 0 {
		return nil
	}
	p.users++
	return p
}

// Leave gives the place up, when all who have it have left. Each must call it once. There is nothing to leave of nil.
func (p *Ticket) Leave() {
	if p == nil {
		return
	}
	p.manager.lines.Lock()
	defer p.manager.lines.Unlock()
	if p.users--; p.users > 0 {
		return
	}
	for s, t := range p.tickets {
		s.removeTicket(t)
	}
	p.tickets = nil
}

type placeKey struct{}

// WithContext returns a context for requests that have this place.
func (p *Ticket) WithContext(ctx context.Context) context.Context {
	if p == nil {
		return ctx
	}
	return context.WithValue(ctx, placeKey{}, p)
}

// Wait waits until nobody is before the caller in the session's line: by its place, which it keeps until it leaves it,
// or by one that leave gives up.
func (s *Session) Wait(ctx context.Context) (leave func(), err error) {
	k := s.manager
	k.lines.Lock()
	p, _ := ctx.Value(placeKey{}).(*Ticket)
	leave = func() {}
	var t *sessionTicket
	if p != nil {
		t = p.tickets[s]
	}
	if t == nil {
		t = s.appendTicket()
		leave = func() {
			k.lines.Lock()
			defer k.lines.Unlock()
			s.removeTicket(t)
		}
	}
	k.lines.Unlock()
	select {
	case <-t.first:
		return leave, nil
	case <-s.dead:
		err = s.endedError()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	leave()
	return nil, err
}
