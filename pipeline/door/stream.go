package door

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Heartbeat is how often a stream says that it lives: proxies drop connections that are silent, most after 30 s or 60 s.
const Heartbeat = 15 * time.Second

var errEnded = errors.New("the answer has ended")

// Stream is an answer that comes in pieces. Its methods may be called concurrently.
type Stream struct {
	mu    sync.Mutex
	w     http.ResponseWriter
	err   error // the first
	end   chan struct{}
	beats sync.WaitGroup
}

// BeginStream begins an answer of a media type, in which alive stands from time to time until Close; "" never does.
func BeginStream(w http.ResponseWriter, kind, alive string) *Stream {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Accel-Buffering", "no") // nginx would wait for more
	s := &Stream{w: w, end: make(chan struct{})}
	if alive == "" {
		return s
	}
	s.beats.Go(func() {
		tick := time.NewTicker(Heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = s.Send([]byte(alive))
			case <-s.end:
				return
			}
		}
	})
	return s
}

// BeginEvents begins an answer of server-sent events.
func BeginEvents(w http.ResponseWriter) *Stream {
	return BeginStream(w, "text/event-stream", ": alive\n\n")
}

// Event sends an event whose data is a value as JSON.
func (s *Stream) Event(name string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return s.Send(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, b))
}

// Add adds a piece, which is sent with the next one.
func (s *Stream) Add(piece []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		_, s.err = s.w.Write(piece)
	}
	return s.err
}

// Send sends a piece, and what was added, at once. A client that is gone is noticed by the end of the request's context, too.
func (s *Stream) Send(piece []byte) error {
	if err := s.Add(piece); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = http.NewResponseController(s.w).Flush()
	}
	return s.err
}

// Close ends the answer. What is sent later is lost: code whose client has gone may still write, when the response is none any more.
func (s *Stream) Close() {
	close(s.end)
	s.beats.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errEnded
}
