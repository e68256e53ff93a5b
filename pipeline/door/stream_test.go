package door

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// TestStream: a stream says from time to time that it lives, and writes nothing once it is closed, when the response is
// none any more.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s := BeginStream(w, "text/plain", "alive\n", Heartbeat, func() {})
		if err := s.Add([]byte("a")); err != nil || w.Flushed {
			t.Errorf("flushed %v, %v", w.Flushed, err)
		}
		if err := s.Send([]byte("b\n")); err != nil || !w.Flushed {
			t.Errorf("flushed %v, %v", w.Flushed, err)
		}
		time.Sleep(2*Heartbeat + time.Second)
		if !s.StopHeartbeat() {
			t.Error("it has not begun")
		}
		time.Sleep(2 * Heartbeat)
		s.Close()
		if err := s.Send([]byte("late")); err == nil {
			t.Error("something was sent behind the end")
		}
		time.Sleep(2 * Heartbeat)
		if got, want := w.Body.String(), "ab\nalive\nalive\n"; got != want || w.Header().Get("Content-Type") != "text/plain" {
			t.Errorf("got %q, %v, want %q", got, w.Header(), want)
		}
		w = httptest.NewRecorder()
		if s := BeginEvents(w); s.StopHeartbeat() || len(w.Header()) > 0 {
			t.Errorf("it has begun by itself: %v", w.Header())
		}
	})
}
