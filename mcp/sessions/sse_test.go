package sessions

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// stuck is a client that reads nothing until it is let.
type stuck struct {
	http.ResponseWriter
	read chan struct{} // closed when it reads
	mu   sync.Mutex
	text strings.Builder
}

func (s *stuck) Header() http.Header { return http.Header{} }
func (s *stuck) FlushError() error   { return nil }

func (s *stuck) Write(b []byte) (int, error) {
	if strings.HasPrefix(string(b), "event: ") {
		<-s.read
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

// TestSlowReader: events for a client that does not read take so much memory and no more, hold nobody up, and what is missing is said where
// it is missing.
func TestSlowReader(t *testing.T) {
	client := &stuck{read: make(chan struct{})}
	s := startSSE(client, time.Hour)
	const events, size = 1000, 64 << 10
	picture := strings.Repeat("x", size)
	for n := range events {
		s.later("display", map[string]any{"n": n, "data": picture})
	}
	s.waits.Lock()
	waits, bytes := len(s.waiting), s.bytes
	s.waits.Unlock()
	if bytes > maxWaiting || waits > maxWaiting/size {
		t.Errorf("%d events with %d bytes wait", waits, bytes)
	}
	close(client.read)
	s.drain()
	s.later("display", map[string]any{"n": events, "data": strings.Repeat("y", 2*maxWaiting)}) // one alone is sent whatever its size
	s.later("display", map[string]any{"n": events + 1})
	s.drain()
	s.close()
	next, gaps := 0, 0
	for _, event := range strings.Split(client.text.String(), "\n\n") {
		_, text, is := strings.Cut(event, "\ndata: ")
		if !is {
			continue
		}
		var data struct{ N, Events int }
		if err := json.Unmarshal([]byte(text), &data); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(event, "event: dropped") {
			gaps++
			next += data.Events
			continue
		}
		if data.N != next {
			t.Fatalf("got event %d, want %d", data.N, next)
		}
		next++
	}
	if next != events+2 || gaps == 0 || s.bytes != 0 {
		t.Errorf("%d events, %d gaps, %d bytes are left", next, gaps, s.bytes)
	}
}
