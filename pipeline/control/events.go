package control

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// Bounds of the streams of events. Each is a connection, and there is room for others beside them.
const (
	maxStreams   = 16
	streamBuffer = 1000 // events that a slow client has not read yet
)

// Line is a line of a stream of events: an event, or without an event's number a notice.
type Line struct {
	event.Event
	Notice
}

// EventQuery asks for events.
type EventQuery struct {
	Namespace string   `json:"namespace,omitempty" about:"Only events of this namespace. Default: of all that the caller may see." range:"..64"`
	Kinds     []string `json:"kind,omitempty" about:"Only these; there may be several." range:"..64" each:"The name of an event."`
	Since     uint64   `json:"since,omitempty" about:"Only events after this number."`
	Follow    bool     `json:"follow" about:"Go on with those that come." default:"true"`
}

// filter returns the bus's form of the query.
func (q EventQuery) filter() event.Filter {
	return event.Filter{Namespace: cmp.Or(q.Namespace, event.All), Kinds: q.Kinds}
}

// Notice is a line of a stream that is no event: it says what is missing about there.
type Notice struct {
	Dropped   uint64 `json:"dropped,omitempty"`   // events that came while the client was too slow
	Forgotten uint64 `json:"forgotten,omitempty"` // events after since, of all kinds and namespaces, that the server does not remember
	// Unwritten is the number of an event that can't be written as JSON: a bug of whoever published it.
	Unwritten uint64 `json:"unwritten,omitempty"`
}

// streams counts the streams under way.
type streams struct {
	mu   sync.Mutex
	n    int
	by   map[string]int // of one person over HTTP or on the page
	over chan struct{}  // closed by the server's Close
	all  sync.WaitGroup
}

// enter lets one more begin where fewer than limit are under way, and fewer than a third of them are the same person's.
func (s *streams) enter(by asker, limit int, what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.over:
		return failure(http.StatusServiceUnavailable, "the server ends")
	default:
	}
	if s.n >= by.room(limit) {
		return failure(http.StatusServiceUnavailable, "%d clients %s already", s.n, what)
	}
	if !by.peer && s.by[by.user] >= limit/3 {
		return failure(http.StatusServiceUnavailable, "%d clients of %s %s already", s.by[by.user], by.user, what)
	}
	if s.by == nil {
		s.by = map[string]int{}
	}
	s.by[by.user]++
	s.n++
	s.all.Add(1)
	return nil
}

func (s *streams) leave(by asker) {
	s.mu.Lock()
	s.n--
	if s.by[by.user]--; s.by[by.user] == 0 {
		delete(s.by, by.user)
	}
	s.mu.Unlock()
	s.all.Done()
}

// end has all streams end, and lets no more begin.
func (s *streams) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.over:
	default:
		close(s.over)
	}
}

// events answers with the events that are remembered, and those that come.
func (a *API) events(w http.ResponseWriter, r *http.Request) {
	q, err := streamEvents.Arguments(r)
	if err == nil {
		if e := event.Check(q.Kinds); e != nil {
			err = operation.Wrong("kind", "%v", e)
		}
	}
	by := askerOf(r.Context())
	if err == nil && q.Namespace != "" {
		err = by.reach(q.Namespace)
	}
	if err == nil {
		err = a.streams.enter(by, maxStreams, "listen")
	}
	if err != nil {
		deny(w, err)
		return
	}
	defer a.streams.leave(by)
	// A client may read as slowly as it likes, and for as long: what it costs is bounded.
	if err := unhurried(w); err != nil {
		deny(w, err)
		return
	}
	s, before, forgotten := a.c.Events.Listen(q.filter(), streamBuffer, q.Since)
	defer s.Cancel()
	out := &stream{lines: newLines(w, r), sees: by.sees}
	defer out.Close()
	if q.Since > 0 && forgotten > 0 {
		out.notice(Notice{Forgotten: forgotten})
	}
	for _, e := range before {
		out.event(e)
	}
	out.err = cmp.Or(out.err, out.Send(nil))
	if q.Follow {
		out.follow(r.Context(), a.streams.over, s)
	}
}

// stream writes events until the first error.
type stream struct {
	*lines
	sees func(namespace string) bool
	err  error // the first
}

func (o *stream) event(e event.Event) {
	if !o.sees(e.Namespace) {
		return
	}
	b, err := json.Marshal(e)
	if err != nil {
		o.notice(Notice{Unwritten: e.Seq})
		return
	}
	o.err = cmp.Or(o.err, o.Add(o.line(b)))
}

func (o *stream) notice(n Notice) {
	b, err := json.Marshal(n)
	o.err = cmp.Or(o.err, err, o.Add(o.line(b)))
}

// follow writes what comes, until ctx or the server ends. What a client misses it is told about where
// that is noticed.
func (o *stream) follow(ctx context.Context, over <-chan struct{}, s *event.Subscription) {
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
		case <-over:
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
