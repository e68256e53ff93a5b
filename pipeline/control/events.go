package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// Bounds of the streams of events. Each is a connection, and there is room for others beside them.
const (
	maxStreams   = 16
	streamBuffer = 1000 // events that a slow client has not read yet
)

// EventQuery asks for events.
type EventQuery struct {
	Namespace string   // "" is all
	Kinds     []string // names of events; empty is all
	Since     uint64   // only those after this number
	Follow    bool     // go on with those that come
}

func (q EventQuery) values() url.Values {
	v := url.Values{}
	if q.Namespace != "" {
		v.Set("namespace", q.Namespace)
	}
	v["kind"] = q.Kinds
	if q.Since > 0 {
		v.Set("since", strconv.FormatUint(q.Since, 10))
	}
	if !q.Follow {
		v.Set("follow", "false")
	}
	return v
}

// readQuery is strict: who mistypes a filter must not take its silence for nothing happening.
func readQuery(v url.Values) (q EventQuery, err error) {
	q.Follow = true
	for key, values := range v {
		if len(values) > 1 && key != "kind" {
			return q, fmt.Errorf("%.40q is there more than once", key)
		}
		switch key {
		case "namespace":
			q.Namespace = values[0]
		case "kind":
			q.Kinds, err = values, event.Check(values)
		case "since":
			if q.Since, err = strconv.ParseUint(values[0], 10, 64); err != nil {
				err = fmt.Errorf("since=%.40q is no event's number", values[0])
			}
		case "follow":
			if q.Follow = values[0] != "false"; q.Follow && values[0] != "true" {
				err = fmt.Errorf("follow=%.40q is neither true nor false", values[0])
			}
		default:
			err = fmt.Errorf("events have no filter %.40q", key)
		}
		if err != nil {
			return q, err
		}
	}
	return q, nil
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
	over chan struct{} // closed by the server's Close
	all  sync.WaitGroup
}

func (s *streams) enter(limit int, what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.over:
		return errors.New("the server ends")
	default:
	}
	if s.n >= limit {
		return fmt.Errorf("%d clients %s already", s.n, what)
	}
	s.n++
	s.all.Add(1)
	return nil
}

func (s *streams) leave() {
	s.mu.Lock()
	s.n--
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
func (l *Listener) events(w http.ResponseWriter, r *http.Request) {
	q, err := readQuery(r.URL.Query())
	switch {
	case err != nil:
		refuse(w, http.StatusBadRequest, err)
		return
	case l.c.Events == nil:
		refuse(w, http.StatusNotFound, errors.New("this server has none"))
		return
	}
	if err := l.streams.enter(maxStreams, "listen"); err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	defer l.streams.leave()
	// A client may read as slowly as it likes, and for as long: what it costs is bounded.
	c := http.NewResponseController(w)
	if err := errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{})); err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	s, before, forgotten := l.c.Events.Listen(q.filter(), streamBuffer, q.Since)
	defer s.Cancel()
	out := &stream{w: w, flush: c.Flush}
	if q.Since > 0 && forgotten > 0 {
		out.line(Notice{Forgotten: forgotten})
	}
	for _, e := range before {
		out.event(e)
	}
	out.flushed()
	if q.Follow {
		out.follow(r.Context(), l.streams.over, s)
	}
}

// stream writes lines until the first error.
type stream struct {
	w     http.ResponseWriter
	flush func() error
	err   error
}

func (o *stream) event(e event.Event) {
	b, err := json.Marshal(e)
	if err != nil {
		o.line(Notice{Unwritten: e.Seq})
		return
	}
	o.write(b)
}

func (o *stream) line(n Notice) {
	b, err := json.Marshal(n)
	o.err = cmp.Or(o.err, err)
	o.write(b)
}

func (o *stream) write(line []byte) {
	if o.err == nil {
		_, o.err = o.w.Write(append(line, '\n'))
	}
}

func (o *stream) flushed() {
	if o.err == nil {
		o.err = o.flush()
	}
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
			o.line(Notice{Dropped: missed - reported})
			reported = missed
		}
		if len(s.Events()) == 0 {
			o.flushed()
		}
	}
}
