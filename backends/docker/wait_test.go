package docker

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	moby "github.com/moby/moby/client"
)

// TestWaitAcrossNetworks checks that Wait goes on while the network drops requests or cuts the events.
func TestWaitAcrossNetworks(t *testing.T) {
	t.Parallel()
	var streams atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, "/events") {
			fmt.Fprint(w, `{"Id":"c","State":{"Running":true}}`)
			return
		}
		w.(http.Flusher).Flush()
		if streams.Add(1) == 1 {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			conn.(*net.TCPConn).SetLinger(0) // a reset
			conn.Close()
			return
		}
		for _, action := range []string{"die", "destroy"} {
			fmt.Fprintf(w, `{"Type":"container","Action":%q,"Actor":{"ID":"c","Attributes":{"exitCode":"7"}}}`, action)
		}
	}))
	t.Cleanup(s.Close)
	var dials atomic.Int64
	api, err := moby.New(moby.WithHost("tcp://"+s.Listener.Addr().String()), moby.WithAPIVersion("1.41"),
		moby.WithDialContext(func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1) <= 2 {
				return nil, &net.OpError{Op: "dial", Net: network, Err: timeout{os.ErrDeadlineExceeded}}
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Close() })
	if x, err := (&link{api: api}).Wait(t.Context(), "c"); err != nil || x.Code != 7 || streams.Load() != 2 {
		t.Errorf("after %d streams: %+v, %v", streams.Load(), x, err)
	}
}

// timeout is the error that package net returns for a dial timeout.
type timeout struct{ error }

func (timeout) Is(target error) bool { return target == context.DeadlineExceeded }
func (timeout) Timeout() bool        { return true }
