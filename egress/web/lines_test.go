package web

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// TestLeavesNothing has servers that would keep a connection: none is left when a call has ended, however it has.
func TestLeavesNothing(t *testing.T) {
	w := newTown(t)
	var open atomic.Int64
	w.state = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	hold := func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/header":
			<-r.Context().Done()
		case "/body":
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := rw.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}
	}
	for _, base := range []string{w.http("one.example", hold), w.https("two.example", hold, "two.example")} {
		for _, path := range []string{"/", "/header", "/body", "/endless"} {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			_, err := w.client().Get(ctx, &Trip{}, w.policy(), base+path)
			cancel()
			for range 500 {
				if open.Load() == 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if n := open.Load(); n != 0 {
				t.Errorf("%s%s: %d connections are open, after %v", base, path, n, err)
			}
		}
	}
}
