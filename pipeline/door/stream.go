package door

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Heartbeat is the interval of a stream's heartbeats: proxies drop silent connections, most after 30 s or 60 s.
const Heartbeat = 15 * time.Second

var errEnded = errors.New("the answer has ended")

// Stream is an answer that is sent in pieces. Its methods may be called concurrently.
type Stream struct {
	sse bool // server-sent events

	mu    sync.Mutex
	w     http.ResponseWriter
	kind  string
	begun bool
	err   error // the first error
	quiet *time.Ticker
	every time.Duration
	hush  func()
	beats sync.WaitGroup
}

// BeginStream begins an answer of a media type, until Close; its headers are sent with the first piece. After every
// without output, it sends alive, if not "". It calls lost if that fails: over HTTP/1, the context of a request whose
// body has not arrived completely does not end when its client disconnects.
func BeginStream(w http.ResponseWriter, kind, alive string, every time.Duration, lost func()) *Stream {
	s := &Stream{w: w, kind: kind, every: every, hush: func() {}}
	if alive == "" {
		return s
	}
	end := make(chan struct{})
	s.hush = sync.OnceFunc(func() { close(end) })
	s.quiet = time.NewTicker(every)
	s.beats.Go(func() {
		defer s.quiet.Stop()
		for {
			select {
			case <-s.quiet.C:
				if s.Send([]byte(alive)) != nil {
					lost()
					return
				}
			case <-end:
				return
			}
		}
	})
	return s
}

// BeginEvents begins an answer of server-sent events.
func BeginEvents(w http.ResponseWriter) *Stream {
	s := BeginStream(w, "text/event-stream", ": alive\n\n", Heartbeat, func() {})
	s.sse = true
	return s
}

// BeginLines begins an answer of any number of JSON values: one per line, or as server-sent events if the client
// accepts these.
func BeginLines(w http.ResponseWriter, r *http.Request) *Stream {
	w.Header().Set("Cache-Control", "no-store")
	if WantsEvents(r) {
		return BeginEvents(w)
	}
	return BeginStream(w, "application/x-ndjson", "", 0, nil)
}

// WantsEvents reports whether the client accepts server-sent events.
func WantsEvents(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Accept"), func(v string) bool { return strings.Contains(v, "text/event-stream") })
}

// SendEvent sends an event whose data is a value as JSON.
func (s *Stream) SendEvent(name string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.Send(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, b))
}

// SendLine sends a value as a line of JSON, or as the data of an event.
func (s *Stream) SendLine(value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.Send(s.frameLine(b))
}

// AddLine adds a JSON value as a line, which is sent with the next piece.
func (s *Stream) AddLine(value []byte) error { return s.Add(s.frameLine(value)) }

func (s *Stream) frameLine(value []byte) []byte {
	if s.sse {
		return fmt.Appendf(nil, "data: %s\n\n", value)
	}
	return append(value, '\n')
}

// Add adds a piece, which is sent with the next Send.
func (s *Stream) Add(piece []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", s.kind)
		s.w.Header().Set("X-Accel-Buffering", "no") // nginx would buffer
	}
	if s.err == nil {
		_, s.err = s.w.Write(piece)
	}
	return s.err
}

// Send sends all added pieces and this one at once. The request's context ends too if the client has disconnected.
func (s *Stream) Send(piece []byte) error {
	if err := s.Add(piece); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quiet != nil {
		s.quiet.Reset(s.every)
	}
	if s.err == nil {
		s.err = http.NewResponseController(s.w).Flush()
	}
	return s.err
}

// ClearDeadlines removes the deadlines of a request. The door sets them again for the next part of the body or
// answer.
func ClearDeadlines(w http.ResponseWriter) error {
	c := http.NewResponseController(w)
	return errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{}))
}

// Close ends the answer, and later pieces are dropped: code whose client has gone may still send when the response is
// no longer valid.
func (s *Stream) Close() {
	s.StopHeartbeat()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun, s.err = true, errEnded
}

// StopHeartbeat stops the heartbeats, and reports whether the answer has begun.
func (s *Stream) StopHeartbeat() (begun bool) {
	s.hush()
	s.beats.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}
