package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/egress/relay"
)

// webServer answers each request with its Host.
func (w *world) webServer(name string) {
	w.t.Helper()
	w.server(name, func(conn *net.TCPConn) {
		r := bufio.NewReader(conn)
		for {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(request.Host), request.Host)
		}
	})
}

func TestHTTP(t *testing.T) {
	for _, port := range []int{0, 80} {
		w := in(t, port, Config{})
		w.webServer("a.test")
		conn := w.connect("a.test")
		r := bufio.NewReader(conn)
		for range 3 {
			fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: A.test\r\n\r\n")
			answer, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "a.test" {
				t.Errorf("got %q and %v", body, err)
			}
		}
		if n := w.dials.Load(); n != 1 {
			t.Errorf("%d dials, want 1", n)
		}
		_ = conn.Close()
		w.Close()
		if r := w.TakeRecords(); len(r) != 1 || r[0].Sent == 0 || r[0].Received == 0 {
			t.Errorf("got %+v", r)
		}
	}
}

// foreign returns requests for another name, in the forms that lenient servers accept.
func foreign() []string {
	const host = "Host: evil.test\r\n\r\n"
	return []string{
		"GET / HTTP/1.1\r\n" + host,
		"GET / HTTP/1.0\r\n" + host,
		"GET / HTTP/9.9\r\n" + host,
		"get / http/1.1\r\n" + host,
		"JEFF / HTTP/1.1\r\n" + host,
		"GET http://evil.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET http://evil.test/\r\n",
		"GET gopher://evil.test/\r\n",
		"GET / HTTP/1.1\nHost: evil.test\n\n",
		"GET / HTTP/1.1\rHost: evil.test\r\r",
		"\r\n\r\nGET / HTTP/1.1\r\n" + host,
		"\n \t GET / HTTP/1.1\r\n" + host,
		"GET\t/\tHTTP/1.1\r\n" + host,
		"GET\x0b/\x0cHTTP/1.1\r\n" + host,
		"GET  /  HTTP/1.1 \r\n" + host,
		"GET /\x00 HTTP/1.1\r\n" + host,
		"GET /\xff HTTP/1.1\r\n" + host,
		"GET/ HTTP/1.1\r\n" + host,
		"GET / HTTP/1.1\r\nX: a\r\n Host: evil.test\r\n" + host,
		"GET / HTTP/1.1\r\nHost: a.test\r\n" + host,
		"GET / HTTP/1.1\r\nHost:\r\n evil.test\r\n\r\n",
		"GET / HTTP/1.1\r\n Host: a.test\r\n" + host,
		"GET / HTTP/1.1\r\nHost : a.test\r\n" + host,
		"GET / HTTP/1.1\r\nHost: a.test@evil.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test:evil.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test, evil.test\r\n\r\n",
		"GET /" + strings.Repeat("a", 2*maxFirstLine) + " HTTP/1.1\r\n" + host,
		strings.Repeat("A", 2*maxFirstLine) + " / HTTP/1.1\r\n" + host,
		strings.Repeat("\r\n", maxFirstLine) + "GET / HTTP/1.1\r\n" + host,
		"CONNECT evil.test:443 HTTP/1.1\r\n" + host,
		"POST / HTTP/1.1\r\nContent-Length: 0\r\n" + host,
		"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n" + host,
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0cGET / HTTP/1.1\r\n" + host,
		"OPTIONS * HTTP/1.1\r\n" + host,
	}
}

// TestForeignHost sends requests for other names. No byte of them may reach the server.
func TestForeignHost(t *testing.T) {
	for _, port := range []int{0, 80, 443} {
		w := in(t, port, Config{})
		var got sink
		w.server("a.test", got.serve)
		for _, shape := range foreign() {
			conn := w.connect("a.test")
			_, _ = io.WriteString(conn, shape)
			_ = conn.CloseWrite()
			response, _ := io.ReadAll(conn)
			if strings.HasPrefix(string(response), "HTTP/1.1 200") {
				t.Errorf("%d: %.60q is answered with %.100q", port, shape, response)
			}
			if s := got.String(); strings.Contains(s, "evil") || strings.Contains(s, strings.Repeat("a", 50)) {
				t.Fatalf("%d: the server got %.300q from %.60q", port, s, shape)
			}
		}
	}
}

// TestServerEndsSilently has servers close without a message, which tells neither their protocol nor whether they
// listen.
func TestServerEndsSilently(t *testing.T) {
	w := in(t, 0, Config{})
	heard := make(chan string, 1)
	w.server("a.test", func(conn *net.TCPConn) {
		_ = conn.CloseWrite()
		b, _ := io.ReadAll(conn)
		heard <- string(b)
	})
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n": "",
		string(unencryptedHello(t, "evil.test")):    "",
		"\x01\x02 of another protocol":              "\x01\x02 of another protocol",
		"a line of another protocol\n":              "a line of another protocol\n",
	} {
		conn := w.connect("a.test")
		if b, err := io.ReadAll(conn); err != nil || len(b) > 0 { // its end is passed on to a client that waits for it to speak first
			t.Errorf("got %q and %v", b, err)
		}
		_, _ = io.WriteString(conn, request)
		_ = conn.CloseWrite()
		if got := <-heard; got != want {
			t.Errorf("the server got %q, want %q", got, want)
		}
	}
}

// TestUnreachableWeb checks that HTTP clients get the reason why there is no connection.
func TestUnreachableWeb(t *testing.T) {
	w := in(t, 80, Config{})
	conn := w.connect("nowhere.test")
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: nowhere.test\r\nConnection: close\r\n\r\n")
	if response, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(response), "HTTP/1.1 502") ||
		!strings.Contains(string(response), "no such host") {
		t.Errorf("got %q and %v", response, err)
	}
}

// TestBoundName has a name with a secret, which only permits HTTP.
func TestBoundName(t *testing.T) {
	r, err := relay.New(relay.Config{Secrets: func() []relay.Secret {
		return []relay.Secret{{Name: "KEY", Placeholder: "placeholder-of-key", Value: func() string { return "x" },
			Bound: func(name string, _ int) bool { return name == "a.test" }}}
	}, Redact: func(s string) string { return s }, Redactor: func(w io.Writer) io.WriteCloser { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range []string{"\x01\x02\x03\x04", "SET a b\r\n", string(postgresRequests[0])} {
		w := in(t, 0, Config{Relay: r})
		w.server("a.test", echo)
		w.server("b.test", echo)
		conn := w.connect("a.test")
		_, _ = io.WriteString(conn, first)
		mustReset(t, conn)
		w.refused("a secret is bound")
		ping(t, w.connect("b.test"))
	}
}

// TestWord has clients send less than a line and wait for an answer, as some protocols begin.
func TestWord(t *testing.T) {
	w := in(t, 0, Config{})
	w.server("a.test", func(conn *net.TCPConn) {
		b := make([]byte, 100)
		n, _ := conn.Read(b)
		fmt.Fprintf(conn, "you said %s;", b[:n])
		_, _ = io.Copy(conn, conn)
	})
	conn := w.connect("a.test")
	fmt.Fprint(conn, "ruok")
	b := make([]byte, 100)
	if n, err := io.ReadFull(conn, b[:len("you said ruok;")]); err != nil || string(b[:n]) != "you said ruok;" {
		t.Fatalf("got %q and %v", b[:n], err)
	}
	fmt.Fprint(conn, "and GET / HTTP/1.1") // by now the server is known not to speak HTTP
	if n, err := io.ReadFull(conn, b[:len("and GET / HTTP/1.1")]); err != nil || string(b[:n]) != "and GET / HTTP/1.1" {
		t.Errorf("got %q and %v", b[:n], err)
	}
	_ = conn.Close()
	w.Close()
	if r := w.TakeRecords(); len(r) != 1 || r[0].Sent != 22 || r[0].Received != 32 {
		t.Errorf("got %+v", r)
	}
}
