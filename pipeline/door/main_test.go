package door

import (
	"context"
	"errors"
	"fmt"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

// secret stands in requests, and never in a log.
const secret = "hunter2"

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// start listens until the test ends, on loopback unless c says more, and returns the log, too.
func start(t *testing.T, c Config, b bounds) (*Door, *hosttest.Buffer) {
	t.Helper()
	log := new(hosttest.Buffer)
	c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if c.Address == "" {
		c.Address = "127.0.0.1:0"
	}
	if c.Handler == nil {
		c.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = Authenticate(r.Context(), "somebody")
			body, err := io.ReadAll(r.Body)
			if too, is := errors.AsType[*http.MaxBytesError](err); is {
				http.Error(w, fmt.Sprint("more than ", too.Limit), http.StatusRequestEntityTooLarge)
				return
			}
			fmt.Fprintf(w, "%s %s %d", r.Proto, r.URL.Path, len(body))
		})
	}
	d, err := listen(t.Context(), c, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = d.Drain(over)
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has a part of a request: %s", log)
		}
	})
	return d, log
}

// dial connects to d.
func dial(t *testing.T, d *Door) net.Conn {
	t.Helper()
	network, address := "tcp", strings.TrimPrefix(strings.TrimPrefix(d.Address(), "http://"), "https://")
	if d.onUnix {
		network, address = "unix", strings.TrimPrefix(d.Address(), unixPrefix)
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// raw sends bytes, and returns all that comes back until the server closes the connection.
func raw(t *testing.T, d *Door, request string) string {
	t.Helper()
	conn := dial(t, d)
	go io.WriteString(conn, request) // the server need not read all of it
	answer, _ := io.ReadAll(conn)    // a reset is an end, too
	return string(answer)
}

// request sends a request with headers, which are names and values by turns, and returns status, body and headers.
func request(t *testing.T, d *Door, method, path string, headers ...string) (int, string, http.Header) {
	t.Helper()
	client := clientOf(t, d)
	url := "http://" + strings.TrimPrefix(d.Address(), "http://")
	if d.onUnix {
		url = "http://localhost"
	}
	r := must(http.NewRequest(method, url+path+"?token="+secret, nil))
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	w, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	return w.StatusCode, string(must(io.ReadAll(w.Body))), w.Header
}

// clientOf returns a client that connects to d whatever a URL says.
func clientOf(t *testing.T, d *Door) *http.Client {
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return dial(t, d),
			nil
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}
