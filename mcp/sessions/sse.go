package sessions

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// sse is a stream of server-sent events. Its methods may be called concurrently.
type sse struct {
	mu     sync.Mutex
	w      http.ResponseWriter
	rc     *http.ResponseController
	end    chan struct{}
	work   sync.WaitGroup
	closed bool

	draining sync.Mutex // held while what waits is sent
	waits    sync.Mutex // guards waiting
	waiting  []string   // of later
	more     chan struct{}
}

// startSSE begins the answer, which says that it lives every so often until close.
func startSSE(w http.ResponseWriter, every time.Duration) *sse {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would wait for more
	s := &sse{w: w, rc: http.NewResponseController(w), end: make(chan struct{}), more: make(chan struct{}, 1)}
	s.write(": begun\n\n")
	s.work.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.write(": alive\n\n")
			case <-s.more:
				s.drain()
			case <-s.end:
				return
			}
		}
	})
	return s
}

func (s *sse) send(event string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		return // it is our own
	}
	s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", event, text))
}

// later sends an event soon, and in the order of its callers, who wait for no client.
func (s *sse) later(event string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		return // it is our own
	}
	s.waits.Lock()
	s.waiting = append(s.waiting, fmt.Sprintf("event: %s\ndata: %s\n\n", event, text))
	s.waits.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// drain sends what waits.
func (s *sse) drain() {
	s.draining.Lock()
	defer s.draining.Unlock()
	s.waits.Lock()
	all := s.waiting
	s.waiting = nil
	s.waits.Unlock()
	for _, text := range all {
		s.write(text)
	}
}

// write sends text at once. A client that is gone is noticed by the end of the request's context.
func (s *sse) write(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	_, _ = io.WriteString(s.w, text)
	_ = s.rc.Flush()
}

func (s *sse) close() {
	close(s.end)
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true // code whose client has gone may still write, when the response is none any more
}
