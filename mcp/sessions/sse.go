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
	waits    sync.Mutex // guards the next three
	waiting  []string   // of later
	bytes    int        // of those, and of the one that is being sent
	dropped  int        // behind those
	more     chan struct{}
}

// maxWaiting is how many bytes of events wait for a client that reads slowly. One event waits however large it is.
const maxWaiting = 8 << 20

// dropped tells how many events are missing in its place, since the client read too slowly.
type dropped struct {
	Type   string `json:"type"` // "dropped"
	Events int    `json:"events"`
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

// later sends an event soon, and in the order of its callers, who wait for no client. A client that reads too slowly is told how many it
// does not get.
func (s *sse) later(event string, data any) {
	encoded, err := json.Marshal(data)
	if err != nil {
		return // it is our own
	}
	text := fmt.Sprintf("event: %s\ndata: %s\n\n", event, encoded)
	s.waits.Lock()
	if s.dropped > 0 || s.bytes > 0 && s.bytes+len(text) > maxWaiting {
		s.dropped++
	} else {
		s.waiting, s.bytes = append(s.waiting, text), s.bytes+len(text)
	}
	s.waits.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// drain sends what waits, and behind that what is missing.
func (s *sse) drain() {
	s.draining.Lock()
	defer s.draining.Unlock()
	for {
		s.waits.Lock()
		text, missing := "", 0
		if len(s.waiting) > 0 {
			text, s.waiting = s.waiting[0], s.waiting[1:]
		} else {
			missing, s.dropped = s.dropped, 0
		}
		s.waits.Unlock()
		switch {
		case text != "":
			s.write(text)
		case missing > 0:
			s.send("dropped", dropped{"dropped", missing})
		default:
			return
		}
		s.waits.Lock()
		s.bytes -= len(text)
		s.waits.Unlock()
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
