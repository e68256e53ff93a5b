package web

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestLeavesNothing has servers that would keep a connection open: none is left when a call has ended in any way.
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
	reached := make(chan struct{}, 1)
	hold := func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/body":
			rw.(http.Flusher).Flush()
			fallthrough
		case "/header":
			reached <- struct{}{}
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
			ctx, cancel := context.WithCancel(t.Context())
			var caller sync.WaitGroup
			caller.Go(func() { _, _ = w.client().Get(ctx, &Trip{}, w.policy(), base+path) })
			if path == "/header" || path == "/body" {
				<-reached
				cancel()
			}
			caller.Wait()
			hosttest.Until(t, "no connection is open after "+base+path, func() bool { return open.Load() == 0 })
			cancel()
		}
	}
}
