package e2b

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
)

// slow is a client that does not read.
type slow struct {
	*httptest.ResponseRecorder
	reads chan struct{}
}

func (s *slow) Write(b []byte) (int, error) {
	<-s.reads
	return s.ResponseRecorder.Write(b)
}

// TestQueue: who shows something waits for no client, and the client gets all of it in its order.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slow{httptest.NewRecorder(), make(chan struct{})}
		q := newQueue(&lines{w: w, rc: http.NewResponseController(w)})
		for n := range 100 {
			q.add(map[string]int{"n": n}) // would block for good
		}
		synctest.Wait()
		close(w.reads)
		q.close()
		if got := strings.Count(w.Body.String(), "\n"); got != 100 || !strings.HasSuffix(w.Body.String(), "{\"n\":99}\n") {
			t.Errorf("got %d lines: %.100s", got, w.Body)
		}
	})
}
