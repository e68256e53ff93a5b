package egress

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress/relay"
)

// webServer answers each request with the Host that it came with.
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
		if r := w.Take(); len(r) != 1 || r[0].Sent == 0 || r[0].Received == 0 {
			t.Errorf("got %+v", r)
		}
	}
}

// TestForeignHost has requests for other names, in the shapes that lenient servers take. Not one byte
// of them may reach the server.
func TestForeignHost(t *testing.T) {
	const host = "Host: evil.test\r\n\r\n"
	shapes := []string{
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
		"GET /" + strings.Repeat("a", 2*maxLine) + " HTTP/1.1\r\n" + host,
		strings.Repeat("A", 2*maxLine) + " / HTTP/1.1\r\n" + host,
		strings.Repeat("\r\n", maxLine) + "GET / HTTP/1.1\r\n" + host,
		"CONNECT evil.test:443 HTTP/1.1\r\n" + host,
		"POST / HTTP/1.1\r\nContent-Length: 0\r\n" + host,
		"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n" + host,
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0cGET / HTTP/1.1\r\n" + host,
		"OPTIONS * HTTP/1.1\r\n" + host,
	}
	for _, port := range []int{0, 80, 443} {
		for i, slow := range []bool{false, true} {
			w := in(t, port, Config{})
			var got sink
			w.server("a.test", got.serve)
			for _, shape := range shapes {
				if slow && len(shape) > maxLine {
					continue
				}
				conn := w.connect("a.test")
				_ = conn.SetNoDelay(true)
				if slow {
					for i := range shape {
						if _, err := io.WriteString(conn, shape[i:i+1]); err != nil {
							break
						}
						if i < 20 {
							time.Sleep(200 * time.Microsecond)
						}
					}
				} else {
					_, _ = io.WriteString(conn, shape)
				}
				_ = conn.CloseWrite()
				said, _ := io.ReadAll(conn)
				if strings.HasPrefix(string(said), "HTTP/1.1 200") {
					t.Errorf("%d: %.60q is answered with %.100q", port, shape, said)
				}
				if s := got.String(); strings.Contains(s, "evil") || strings.Contains(s, strings.Repeat("a", 50)) {
					t.Fatalf("%d, case %d: the server got %.300q from %.60q", port, i, s, shape)
				}
			}
		}
	}
}

// TestSmuggled has a second request in what a server might take for a body, or not.
func TestSmuggled(t *testing.T) {
	const evil = "GET /evil HTTP/1.1\r\nHost: evil.test\r\n\r\n"
	const first = "POST / HTTP/1.1\r\nHost: a.test\r\n"
	for _, shape := range []string{
		"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n" + evil,
		first + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + evil,
		first + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + evil,
		first + "Content-Length: 0\r\nContent-Length: 41\r\n\r\n" + evil,
		first + "Content-Length: +0\r\n\r\n" + evil,
		first + "Content-Length: 0, 41\r\n\r\n" + evil,
		first + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + evil,
		first + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + evil,
		first + "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + evil,
		first + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n" + evil,
		first + "Transfer-Encoding: chunked\r\n\r\n0;\n\r\n\r\n" + evil,
		first + "\r\n" + evil,
	} {
		w := in(t, 80, Config{})
		w.webServer("a.test")
		conn := w.connect("a.test")
		_, _ = io.WriteString(conn, shape)
		_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		said, _ := io.ReadAll(conn)
		if strings.Contains(string(said), "\r\n\r\nevil.test") {
			t.Errorf("%q is answered with %q", shape, said)
		}
	}
}

// TestServerSpeaksHTTPFirst has servers whose first words must not open the way.
func TestServerSpeaksHTTPFirst(t *testing.T) {
	for _, said := range []string{"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n", "H", "\x00\x00\x00\x04\x00\x00\x00\x00\x00"} {
		w := in(t, 0, Config{})
		var got sink
		w.server("a.test", func(conn *net.TCPConn) {
			_, _ = io.WriteString(conn, said)
			got.serve(conn)
		})
		conn := w.connect("a.test")
		time.Sleep(20 * time.Millisecond)
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
		_ = conn.CloseWrite()
		_, _ = io.ReadAll(conn)
		if s := got.String(); strings.Contains(s, "evil") {
			t.Errorf("after %q the server got %q", said, s)
		}
	}
}

// TestServerEndsSilently has servers end without a word, which says nothing about what they speak, and listen.
func TestServerEndsSilently(t *testing.T) {
	w := in(t, 0, Config{})
	heard := make(chan string, 1)
	w.server("a.test", func(conn *net.TCPConn) {
		_ = conn.CloseWrite()
		b, _ := io.ReadAll(conn)
		heard <- string(b)
	})
	for said, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n": "",
		string(plainHello(t, "evil.test")):          "",
		"\x01\x02 of another protocol":              "\x01\x02 of another protocol",
		"a line of another protocol\n":              "a line of another protocol\n",
	} {
		conn := w.connect("a.test")
		if b, err := io.ReadAll(conn); err != nil || len(b) > 0 { // its end is told to who waits for it to speak first
			t.Errorf("got %q and %v", b, err)
		}
		_, _ = io.WriteString(conn, said)
		_ = conn.CloseWrite()
		select {
		case got := <-heard:
			if got != want {
				t.Errorf("the server got %q, want %q", got, want)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("after %q the server still waits", said)
		}
	}
}

// TestUnreachableWeb holds that programs that speak HTTP are told why there is no connection.
func TestUnreachableWeb(t *testing.T) {
	w := in(t, 80, Config{})
	conn := w.connect("nowhere.test")
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: nowhere.test\r\nConnection: close\r\n\r\n")
	if said, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 502") || !strings.Contains(string(said), "no such host") {
		t.Errorf("got %q and %v", said, err)
	}
}

// TestBoundName has a name with a secret, to which only HTTP may be spoken.
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

// TestWord has clients say less than a line and wait for an answer, which is how some protocols begin.
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
	fmt.Fprint(conn, "and GET / HTTP/1.1") // by now it is known that the server speaks no HTTP
	if n, err := io.ReadFull(conn, b[:len("and GET / HTTP/1.1")]); err != nil || string(b[:n]) != "and GET / HTTP/1.1" {
		t.Errorf("got %q and %v", b[:n], err)
	}
	_ = conn.Close()
	w.Close()
	if r := w.Take(); len(r) != 1 || r[0].Sent != 22 || r[0].Received != 32 {
		t.Errorf("got %+v", r)
	}
}

// TestSlowForeignHost makes pauses in the middle of a request line for another name: its end, and what
// comes after it, may not reach the server.
func TestSlowForeignHost(t *testing.T) {
	for _, port := range []int{0, 80} {
		for name, parts := range map[string][]string{
			"method":  {"GE", "T / HTTP/1.1\r\nHost: evil.test\r\n\r\n"},
			"blank":   {" ", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"},
			"target":  {"GET http://evil.te", "st/ HTTP/1.1\r\n\r\n"},
			"version": {"FOO / HT", "TP/1.1\r\nHost: evil.test\r\n\r\n"},
			"no CR":   {"GET / HTTP/1.1", "\nHost: evil.test\n\n"},
			"old":     {"GET http://evil.test", "/\r\n"},
			"drops":   {"G", "E", "T", " /", " HTTP", "/1.1\r", "\nHost: evil.test\r\n\r\n"},
		} {
			t.Run(fmt.Sprint(name, port), func(t *testing.T) {
				t.Parallel()
				w := in(t, port, Config{})
				var got sink
				w.server("a.test", func(conn *net.TCPConn) { got.serve(conn) })
				conn := w.connect("a.test")
				for _, part := range parts {
					if _, err := fmt.Fprint(conn, part); err != nil {
						break
					}
					time.Sleep(pause + 100*time.Millisecond)
				}
				_, _ = io.Copy(io.Discard, conn)
				if s := got.String(); strings.Contains(s, "evil.test") || strings.Contains(s, "\n") && !strings.Contains(s, "Host: a.test") {
					t.Errorf("the server got %q", s)
				}
			})
		}
	}
}

// TestLateForeignHost has a first word become a request when the server has it already: the reason says so.
func TestLateForeignHost(t *testing.T) {
	w := in(t, 0, Config{})
	var got sink
	w.server("a.test", got.serve)
	conn := w.connect("a.test")
	fmt.Fprint(conn, "FOO / HT")
	time.Sleep(2 * pause)
	fmt.Fprint(conn, "TP/1.1\r\nHost: evil.test\r\n\r\n")
	mustReset(t, conn)
	w.refused("now it is a request")
	if s := got.String(); s != "FOO / HT" {
		t.Errorf("the server got %q", s)
	}
}
