// Package response has what the servers of sessions and of E2B's protocol share in answering over HTTP.
package response

import (
	"net/http"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// Stream is an answer that comes in pieces. Its methods may be called concurrently.
type Stream struct {
	mu     sync.Mutex
	w      http.ResponseWriter
	closed bool
	end    chan struct{}
	beats  sync.WaitGroup
}

// Begin begins an answer of a media type, in which alive stands from time to time until Close.
func Begin(w http.ResponseWriter, kind, alive string) *Stream {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Accel-Buffering", "no") // nginx would wait for more
	s := &Stream{w: w, end: make(chan struct{})}
	s.beats.Go(func() {
		tick := time.NewTicker(operation.Heartbeat)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.Send([]byte(alive))
			case <-s.end:
				return
			}
		}
	})
	return s
}

// Send sends a piece at once. A client that is gone is noticed by the end of the request's context.
func (s *Stream) Send(piece []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	_, _ = s.w.Write(piece)
	_ = http.NewResponseController(s.w).Flush()
}

// Close ends the answer. What is sent later is lost: code whose client has gone may still write, when the response is none any more.
func (s *Stream) Close() {
	close(s.end)
	s.beats.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}
