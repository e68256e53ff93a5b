package relay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func TestServePassesRequestsOn(t *testing.T) {
	g := newRig(t, setup{server: clearServer(echo)})
	protocols(t, func(t *testing.T, major int) {
		r := g.request("PATCH", "/a%2Fb/../c?x=1;y=%zz&z", strings.NewReader("text"))
		r.Header["User-Agent"] = nil
		r.Header.Set("X-Forwarded-Host", "other.example")
		r.Header.Set("Authorization", "Bearer mine")
		res, body := g.send(major, r)
		if res.StatusCode != 200 || res.ProtoMajor != major {
			t.Fatalf("%s %s", res.Proto, res.Status)
		}
		for _, want := range []string{"PATCH /a%2Fb/../c?x=1;y=%zz&z\nHost: " + host + "\n", "\n\ntext", "Authorization: Bearer mine"} {
			if !strings.Contains(body, want) {
				t.Errorf("%q is not in %q", want, body)
			}
		}
		for _, not := range []string{"Forwarded", "User-Agent", "Accept-Encoding", "127.0.0.1"} {
			if strings.Contains(body, not) {
				t.Errorf("%s is in %q", not, body)
			}
		}
		if got := res.Trailer.Get("X-Trailing"); got != "Bearer mine" {
			t.Errorf("trailer: %q", got)
		}
	})
	if got := g.allRefusals(); len(got) > 0 {
		t.Errorf("refused: %q", got)
	}
}

func TestHosts(t *testing.T) {
	g := newRig(t, setup{server: clearServer(echo), port: 8080})
	for written, want := range map[string]string{
		host:                         host,
		"API.Example.COM":            host,
		host + ".":                   host,
		host + ":8080":               host + ":8080",
		"Api.example.com.:8080":      host + ":8080",
		host + ":80":                 "",
		host + ":":                   "",
		host + ":08080":              "",
		"x." + host:                  "",
		"example.com":                "",
		host + "..":                  "",
		"a" + host:                   "",
		"127.0.0.1":                  "",
		"[::1]:8080":                 "",
		"user@" + host:               "",
		host + "@evil.example":       "",
		host + ",evil.example":       "",
		"":                           "",
		host + "/":                   "",
		"\u212aapi.example.com":      "",
		host + "%2eevil.example":     "",
		host + " evil.example":       "",
		host + ":8080.evil.example":  "",
		host + ":8080:80":            "",
		"api.exa\u017fple.com":       "",
		strings.Repeat("a", 5000):    "",
		"evil.example#" + host:       "",
		"evil.example?" + host:       "",
		"evil.example\\." + host[4:]: "",
	} {
		conn := g.dial()
		res, bodies := raw(conn, "GET / HTTP/1.1\r\nHost: "+written+"\r\n\r\n", "GET")
		switch {
		case want != "" && (len(bodies) != 1 || !strings.Contains(bodies[0], "\nHost: "+want+"\n")):
			t.Errorf("Host %q: got %q, want %s", written, bodies, want)
		case want == "" && len(res) == 1 && res[0].StatusCode != 403 && res[0].StatusCode != 400:
			t.Errorf("Host %q: %s", written, res[0].Status)
		case want == "" && len(res) == 1 && res[0].StatusCode == 403 && res[0].Header.Get(refusedHeader) != "1":
			t.Errorf("Host %q: the refusal is not marked", written)
		}
		conn.Close()
	}
	for _, reason := range g.allRefusals() {
		if !strings.Contains(reason, "this connection was made to api.example.com") || len(reason) > 400 {
			t.Errorf("reason: %q", reason)
		}
	}
}

func TestOldHTTP(t *testing.T) {
	g := newRig(t, setup{server: clearServer(echo)})
	res, bodies := raw(g.dial(), "GET /old HTTP/1.0\r\nHost: "+host+"\r\n\r\n", "GET", "GET")
	if len(res) != 1 || !strings.HasPrefix(bodies[0], "GET /old\nHost: "+host+"\n") || len(res[0].TransferEncoding) > 0 {
		t.Errorf("got %d answers, %q", len(res), bodies)
	}
	if !res[0].Close {
		t.Error("the connection does not end")
	}
}

func TestKeepAlive(t *testing.T) {
	g := newRig(t, setup{server: clearServer(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.Header().Set("Etag", `"x"`)
			w.WriteHeader(304)
		case "/size":
			w.Header().Set("Content-Length", "5")
			io.WriteString(w, "12345")
		default:
			echo(w, r)
		}
	})})
	text := ""
	methods := []string{"GET", "POST", "HEAD", "GET", "GET", "OPTIONS", "POST"}
	for _, line := range []string{"GET /size", "POST /2", "HEAD /size", "GET /204", "GET /304", "OPTIONS *", "POST /chunks"} {
		text += line + " HTTP/1.1\r\nHost: " + host + "\r\n"
		switch {
		case strings.HasSuffix(line, "/2"):
			text += "Content-Length: 3\r\n\r\nabc"
		case strings.HasSuffix(line, "/chunks"):
			text += "Transfer-Encoding: chunked\r\n\r\n3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
		default:
			text += "\r\n"
		}
	}
	res, bodies := raw(g.dial(), text, methods...)
	if len(res) != len(methods) {
		t.Fatalf("got %d answers", len(res))
	}
	if bodies[0] != "12345" || res[2].ContentLength != 5 || res[3].StatusCode != 204 || res[4].StatusCode != 304 ||
		res[4].Header.Get("Etag") == "" {
		t.Errorf("got %q, HEAD %d, %s, %s", bodies[0], res[2].ContentLength, res[3].Status, res[4].Status)
	}
	if !strings.HasSuffix(bodies[1], "\n\nabc") || !strings.HasPrefix(bodies[5], "OPTIONS *\n") || !strings.HasSuffix(bodies[6], "\n\nabcde") {
		t.Errorf("got %q", bodies)
	}
	if g.dials != 1 {
		t.Errorf("%d connections to the name, want 1", g.dials)
	}
}

func TestContinueAndHints(t *testing.T) {
	g := newRig(t, setup{server: clearServer(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(417)
			return
		}
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(103)
		w.Header().Del("Link")
		io.Copy(w, r.Body)
	})})
	protocols(t, func(t *testing.T, major int) {
		var hints []string
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, h.Get("Link")))
				return nil
			},
		})
		r := g.request("POST", "/", strings.NewReader("body")).WithContext(ctx)
		r.Header.Set("Expect", "100-continue")
		res, body := g.send(major, r)
		if res.StatusCode != 200 || body != "body" || !strings.Contains(strings.Join(hints, " "), "103</style.css>") {
			t.Errorf("%s %q, hints %q", res.Status, body, hints)
		}
	})
	body := strings.NewReader("unsent")
	r := g.request("POST", "/no", body)
	r.Header.Set("Expect", "100-continue")
	if res, _ := g.send(1, r); res.StatusCode != 417 || body.Len() != 6 {
		t.Errorf("%s, and %d bytes of the body were kept", res.Status, body.Len())
	}
}

// TestEvents: a server's events arrive one by one, while the response is still open.
func TestEvents(t *testing.T) {
	s := newStream()
	g := newRig(t, setup{server: clearServer(s.serve)})
	protocols(t, func(t *testing.T, major int) { s.read(t, g, major) })
}

// stream is a server's events, each of which is requested, and their end.
type stream struct{ next, ended chan struct{} }

func newStream() stream { return stream{make(chan struct{}), make(chan struct{})} }

func (s stream) serve(w http.ResponseWriter, r *http.Request) {
	defer func() { s.ended <- struct{}{} }()
	w.Header().Set("Content-Type", "text/event-stream")
	w.(http.Flusher).Flush()
	for {
		select {
		case <-s.next:
			io.WriteString(w, "data: "+r.Header.Get("X-Key")+"\n\n")
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (s stream) read(t *testing.T, g *rig, major int) {
	r := g.request("GET", "/", nil)
	r.Header.Set("X-Key", placeholder)
	res, err := g.client(major).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { res.Body.Close(); <-s.ended }() // otherwise it would receive the next test's requests
	in := bufio.NewReader(res.Body)
	for i := range 10 {
		s.next <- struct{}{}
		for range 2 {
			if line, err := in.ReadString('\n'); err != nil {
				t.Fatalf("event %d: %q, %v", i, line, err)
			}
		}
	}
}

// TestConversation: in gRPC, both sides alternate, and the status comes in a trailer.
func TestConversation(t *testing.T) {
	g := newRig(t, setup{server: clearServer(converse)})
	protocols(t, func(t *testing.T, major int) { speak(t, g, major) })
}

func converse(w http.ResponseWriter, r *http.Request) {
	http.NewResponseController(w).EnableFullDuplex()
	w.Header().Set("Trailer", "Grpc-Status")
	w.Header().Set("Content-Type", "application/grpc")
	w.WriteHeader(200)
	w.(http.Flusher).Flush()
	in := bufio.NewReader(r.Body)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		io.WriteString(w, "you said "+line)
		w.(http.Flusher).Flush()
	}
	w.Header().Set("Grpc-Status", "0"+r.Trailer.Get("X-End"))
	w.Header().Set(http.TrailerPrefix+"Grpc-Message", "unannounced")
}

func speak(t *testing.T, g *rig, major int) {
	pr, pw := io.Pipe()
	r := g.request("POST", "/service/Method", pr)
	r.Header.Set("Te", "trailers")
	r.Header.Set("Content-Type", "application/grpc")
	r.Trailer = http.Header{"X-End": {"!"}}
	res, err := g.client(major).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	for i := range 5 {
		fmt.Fprintf(pw, "%d\n", i)
		if line, err := in.ReadString('\n'); line != fmt.Sprintf("you said %d\n", i) {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	pw.Close()
	rest, err := io.ReadAll(in)
	if len(rest) > 0 || err != nil || res.Trailer.Get("Grpc-Status") != "0!" || res.Trailer.Get("Grpc-Message") != "unannounced" {
		t.Errorf("rest %q, %v, trailer %v", rest, err, res.Trailer)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestHugeBody: a huge body passes in both directions without being buffered.
func TestHugeBody(t *testing.T) {
	size := int64(hosttest.Rounds(128<<20, 1<<30))
	g := newRig(t, setup{server: clearServer(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			w.Header().Set("Content-Length", fmt.Sprint(size))
			io.CopyN(w, endless{}, size)
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	res, err := g.client(1).Do(g.request("GET", "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, res.Body)
	if n != size || err != nil {
		t.Errorf("got %d bytes, %v", n, err)
	}
	if _, body := g.send(1, g.request("PUT", "/", io.LimitReader(endless{}, size))); body != fmt.Sprint(size) {
		t.Errorf("sent %s bytes", body)
	}
	runtime.ReadMemStats(&after)
	if all := after.TotalAlloc - before.TotalAlloc; all > 32<<20 {
		t.Errorf("%d MiB were allocated", all>>20)
	}
}

func TestClientGoesAway(t *testing.T) {
	gone := make(chan struct{})
	g := newRig(t, setup{server: clearServer(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	})})
	protocols(t, func(t *testing.T, major int) {
		ctx, cancel := context.WithCancel(context.Background())
		res, err := g.client(major).Do(g.request("GET", "/", nil).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		res.Body.Close()
		<-gone
	})
}

func TestNameFails(t *testing.T) {
	for name, c := range map[string]struct {
		dial    func(context.Context) (net.Conn, error)
		status  int
		want    string
		refused bool
	}{
		"unreachable": {func(context.Context) (net.Conn, error) { return nil, errUnreachable }, 502,
			"connect to api.example.com:80: no route to it", false},
		"refused address": {func(context.Context) (net.Conn, error) {
			return nil, fmt.Errorf("10.0.0.1 is private: %w", ErrRefused)
		}, 403, "sandboxmcp: 10.0.0.1 is private: refused\n", true},
		"hangs up": {func(context.Context) (net.Conn, error) {
			a, b := net.Pipe()
			go func() { bufio.NewReader(b).ReadString('\n'); b.Close() }()
			return a, nil
		}, 502, "", false},
		"no HTTP": {func(context.Context) (net.Conn, error) {
			a, b := net.Pipe()
			go func() { bufio.NewReader(b).ReadString('\n'); io.WriteString(b, "220 mail\r\n\r\n"); b.Close() }()
			return a, nil
		}, 502, "malformed HTTP", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, setup{dial: c.dial})
			protocols(t, func(t *testing.T, major int) {
				res, body := g.send(major, g.request("GET", "/", nil))
				if res.StatusCode != c.status || !strings.HasPrefix(body, "sandboxmcp: ") || major == 1 && !strings.Contains(body, c.want) {
					t.Errorf("%s %q", res.Status, body)
				}
				if got := res.Header.Get(refusedHeader) != ""; got != c.refused || got != (len(g.allRefusals()) > 0) {
					t.Errorf("refused %v, %q", got, g.allRefusals())
				}
			})
		})
	}
}

// TestNothingIsLeft: when Plain returns, nothing that it started is left.
func TestNothingIsLeft(t *testing.T) {
	s := clearServer(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		if r.URL.Path != "/idle" {
			<-r.Context().Done()
		}
	})
	defer s.Close()
	var relay *Relay // which has no secrets
	before := runtime.NumGoroutine()
	for _, end := range []string{"client", "context", "idle"} {
		client, conn := net.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		returned := make(chan error)
		go func() {
			returned <- relay.Serve(ctx, Route{Name: host, Port: 80, Client: conn, Dial: func(ctx context.Context) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", s.Listener.Addr().String())
			}})
		}()
		io.WriteString(client, "GET /"+end+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		switch end {
		case "idle": // with a reusable connection to the name
			io.Copy(io.Discard, res.Body)
			client.Close()
		case "client":
			client.Close()
		case "context":
			cancel()
		}
		if err := <-returned; (end == "context") != errors.Is(err, context.Canceled) {
			t.Errorf("%s ended: %v", end, err)
		}
		cancel()
		client.Close()
	}
	hosttest.Until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}
