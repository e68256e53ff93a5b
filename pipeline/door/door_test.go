package door

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// Tokens don't go over a network in clear.
func TestExposed(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.server(t, t.TempDir())
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		d, err := Listen(t.Context(), Config{Address: address})
		if err == nil || !strings.Contains(err.Error(), "http.tls_cert") {
			t.Errorf("%s: got %v, %v", address, d, err)
		}
	}
	for _, address := range []string{"", "127.0.0.1", "127.0.0.1:99999", "nowhere.invalid:0", "unixx:/a"} {
		if d, err := Listen(t.Context(), Config{Address: address}); err == nil {
			t.Errorf("%q: it listens at %s", address, d.Address())
		}
	}
	d, _ := start(t, Config{Address: "0.0.0.0:0", Cert: cert, Key: key}, usual)
	url := strings.Replace(d.Address(), "[::]", "127.0.0.1", 1)
	url = strings.Replace(url, "0.0.0.0", "127.0.0.1", 1)
	if body, _, err := getOnce(ca.client(t), url); body != "HTTP/2.0 / 0" || !strings.HasPrefix(url, "https://127.0.0.1:") {
		t.Errorf("%s: got %s, %v", url, body, err)
	}
	if d, _ = start(t, Config{Address: "localhost:0"}, usual); !strings.HasPrefix(d.Address(), "http://127.0.0.1:") &&
		!strings.HasPrefix(d.Address(), "http://[::1]:") {
		t.Errorf("localhost: got %s", d.Address())
	}
}

func TestHTTP2OnUnix(t *testing.T) {
	d, _ := start(t, Config{Address: unixPrefix + t.TempDir() + "/s"}, usual)
	tcp, _ := start(t, Config{}, usual)
	for d, want := range map[*Door]string{d: "HTTP/2.0 /a 0", tcp: ""} {
		client := clientOf(t, d)
		tr := client.Transport.(*http.Transport)
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
		if got, _, err := getOnce(client, "http://localhost/a"); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %s, %v", d.Address(), got, err)
		}
	}
	if status, body, _ := request(t, d, "GET", "/a"); status != 200 || body != "HTTP/1.1 /a 0" {
		t.Errorf("got %d %s", status, body)
	}
}

// Drain waits for requests under way and accepts no more.
func TestDrain(t *testing.T) {
	entered, release := make(chan bool), make(chan bool)
	d, _ := start(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- true
		<-release
		fmt.Fprint(w, "whole")
	})}, usual)
	conn := dial(t, d)
	must(io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	<-entered
	drained := make(chan error, 1)
	go func() { drained <- d.Drain(context.Background()) }()
	hosttest.Until(t, "new connections are refused", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(d.Address(), "http://"))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	w := httptest.NewRecorder() // a request that was there before
	r := httptest.NewRequest("GET", "/readyz", nil)
	r.Host = "localhost"
	if d.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable {
		t.Errorf("/readyz: got %d %s", w.Code, w.Body)
	}
	select {
	case err := <-drained:
		t.Errorf("it did not wait: %v", err)
	default:
	}
	close(release)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body := string(must(io.ReadAll(answer.Body))); body != "whole" {
		t.Errorf("got %s", body)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	select {
	case err := <-d.Failed():
		t.Errorf("it failed: %v", err)
	default:
	}
}

func TestDrainCutsOff(t *testing.T) {
	entered, left := make(chan bool), make(chan bool)
	d, _ := start(t, Config{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(left)
	})}, usual)
	go raw(t, d, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Drain(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-left
}

func TestFailed(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	d := &Door{address: "here", failed: make(chan error, 1), ended: make(chan struct{})}
	l.Close()
	d.serve(l)
	if err := <-d.Failed(); err == nil || !strings.Contains(err.Error(), "serve at here") {
		t.Errorf("got %v", err)
	}
}
