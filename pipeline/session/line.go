package session

import (
	"context"
	"slices"
)

// Ticket is a caller's place in the queues of sessions: callers use a session one after another, in the order of
// their tickets. A caller without one queues for each use.
type Ticket struct {
	manager *Manager
	tickets map[*Session]*sessionTicket
	users   int // number of holders that have not left; guarded by the manager's lines
}

// sessionTicket is a place in the queue of one session.
type sessionTicket struct{ first chan struct{} } // closed when it is the first in line

// Enqueue appends to all queues at once, so that no two tickets wait for each other. Leave gives the ticket up.
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

// RetainTicket returns the ticket of a context for another holder, which must call Leave too, or nil if there is none.
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

// Leave gives the ticket up once all of its holders have called Leave; each must call it once. A nil ticket is valid.
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

// WithContext returns a context for requests that use this ticket.
func (p *Ticket) WithContext(ctx context.Context) context.Context {
	if p == nil {
		return ctx
	}
	return context.WithValue(ctx, placeKey{}, p)
}

// Wait waits until the caller is the first in the session's queue: with its ticket, which it keeps, or with one that
// leave gives up.
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
