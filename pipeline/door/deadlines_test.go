package door

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// Code that still reads a body, or interrupts a request, after the handler has returned harms neither the server nor
// the connection's next request.
func TestDeadlinesEnd(t *testing.T) {
	visits := make(chan *Visit, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visits <- VisitOf(r.Context())
		_, _ = io.WriteString(w, "yes")
	})
	plain, _ := start(t, Config{Handler: handler}, usual)
	conn := dial(t, plain)
	in := bufio.NewReader(conn)
	for range 2 {
		must(io.WriteString(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"))
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal("the next request ended:", err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		(<-visits).interrupt()
	}

	ca := newAuthority(t)
	cert, key := ca.server(t, t.TempDir())
	d, _ := start(t, Config{Cert: cert, Key: key, Handler: handler}, usual)
	client := ca.client(t)
	for range 2 {
		if got, _, err := getOnce(client, d.Address()); got != "yes" {
			t.Fatalf("got %q, %v", got, err)
		}
		v := <-visits
		hosttest.Until(t, "the handler has returned", func() bool {
			v.deadlines.mu.Lock()
			defer v.deadlines.mu.Unlock()
			return v.deadlines.ended
		})
		v.deadlines.setRead(time.Time{})
		v.interrupt()
	}
}

// A proxy to a server that answers before it has read the request goes on to read it, shortly.
func TestBodyOutlivesHandler(t *testing.T) {
	early := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // takes no more of the body
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "yes")
	}))
	t.Cleanup(early.Close)
	to := must(url.Parse(early.URL))
	ca := newAuthority(t)
	cert, key := ca.server(t, t.TempDir())
	d, _ := start(t, Config{Cert: cert, Key: key, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httputil.NewSingleHostReverseProxy(to).ServeHTTP(w, r)
	})}, usual)
	client := ca.client(t)
	for range 10 {
		w, err := client.Post(d.Address(), "text/plain", io.LimitReader(zeros{}, MaxBody))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(w.Body)
		w.Body.Close()
		if string(got) != "yes" {
			t.Errorf("got %q", got)
		}
	}
}
