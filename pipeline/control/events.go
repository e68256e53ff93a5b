package control

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// streamBuffer bounds the events that wait for a slow client.
const streamBuffer = 1000

// Line is a line of an event stream: an event, or a notice if it has no event number.
type Line struct {
	event.Event
	Notice
}

// EventQuery selects events.
type EventQuery struct {
	Namespace string   `json:"namespace,omitempty" about:"Only events of this namespace. Default: all that the caller may see." range:"..64"`
	Kinds     []string `json:"kind,omitempty" about:"Only these kinds; may be repeated." range:"..64" each:"The name of an event."`
	Since     uint64   `json:"since,omitempty" about:"Only events after this number."`
	Follow    bool     `json:"follow" about:"Continue with future events." default:"true"`
}

// filter converts the query for the bus.
func (q EventQuery) filter() event.Filter {
	return event.Filter{Namespace: cmp.Or(q.Namespace, event.All), Kinds: q.Kinds}
}

// Notice is a line of a stream about missing events at this position.
type Notice struct {
	Dropped   uint64 `json:"dropped,omitempty"`   // events lost because the client was too slow
	Forgotten uint64 `json:"forgotten,omitempty"` // events after since, of all kinds and namespaces, that the server has forgotten
	// Unwritten is the number of an event that can't be encoded as JSON, a bug of its publisher.
	Unwritten uint64 `json:"unwritten,omitempty"`
}

// events streams the remembered and the future events.
func (a *API) events(w http.ResponseWriter, r *http.Request) {
	q, err := streamEvents.Arguments(r)
	if err == nil {
		if e := event.Check(q.Kinds); e != nil {
			err = operation.ArgumentError("kind", "%v", e)
		}
	}
	by := requesterOf(r.Context())
	if err == nil && q.Namespace != "" {
		err = by.checkNamespace(q.Namespace)
	}
	ctx, leave := r.Context(), func() {}
	if err == nil {
		ctx, leave, err = a.streams.Acquire(ctx, by.client())
	}
	if err != nil {
		deny(w, err)
		return
	}
	defer leave()
	// A client may read slowly for any time, because its cost is bounded.
	if err := door.ClearDeadlines(w); err != nil {
		deny(w, err)
		return
	}
	s, before, forgotten := a.c.Events.Listen(q.filter(), streamBuffer, q.Since)
	defer s.Cancel()
	out := &eventStream{Stream: door.BeginLines(w, r), sees: by.sees}
	defer out.Close()
	if q.Since > 0 && forgotten > 0 {
		out.notice(Notice{Forgotten: forgotten})
	}
	for _, e := range before {
		out.event(e)
	}
	out.err = cmp.Or(out.err, out.Send(nil))
	if q.Follow {
		out.sendEvents(ctx, s)
	}
}

// eventStream writes events until the first error.
type eventStream struct {
	*door.Stream
	sees func(namespace string) bool
	err  error // the first error
}

func (o *eventStream) event(e event.Event) {
	if !o.sees(e.Namespace) {
		return
	}
	b, err := json.Marshal(e)
	if err != nil {
		o.notice(Notice{Unwritten: e.Seq})
		return
	}
	o.err = cmp.Or(o.err, o.AddLine(b))
}

func (o *eventStream) notice(n Notice) {
	b, err := json.Marshal(n)
	o.err = cmp.Or(o.err, err, o.AddLine(b))
}

// sendEvents writes future events until ctx ends, and a notice about lost ones when it detects them.
func (o *eventStream) sendEvents(ctx context.Context, s *event.Subscription) {
	reported := uint64(0)
	for o.err == nil {
		select {
		case e, ok := <-s.Events():
			if !ok {
				return
			}
			o.event(e)
		case <-ctx.Done():
			return
		}
		if missed := s.Missed(); missed > reported {
			o.notice(Notice{Dropped: missed - reported})
			reported = missed
		}
		if len(s.Events()) == 0 {
			o.err = cmp.Or(o.err, o.Send(nil))
		}
	}
}
