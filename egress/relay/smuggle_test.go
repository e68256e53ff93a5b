package relay

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// witness is a server that trusts and records its input. Connections to it are pipes.
type witness struct {
	mu   sync.Mutex
	seen bytes.Buffer
	asks []*http.Request
}

func (w *witness) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.Write(p)
}

func (w *witness) read(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(io.TeeReader(conn, w))
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		w.mu.Lock()
		w.asks = append(w.asks, r)
		w.mu.Unlock()
		io.Copy(io.Discard, r.Body)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

func (w *witness) dial(context.Context) (net.Conn, error) {
	local, remote := net.Pipe()
	go w.read(remote)
	return local, nil
}

// hear sends text to a relay in front of the witness, and waits until nothing more comes of it.
func (w *witness) hear(t *testing.T, text string) {
	synctest.Test(t, func(t *testing.T) {
		relay, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		client, conn := net.Pipe()
		go relay.Serve(t.Context(), Route{Name: host, Port: 80, Client: conn, Dial: w.dial, OnRefusal: func(string) {}})
		go io.Copy(io.Discard, client)
		go io.WriteString(client, text)
		time.Sleep(2 * (headerTimeout + idleTimeout + continueTimeout))
		client.Close()
	})
}

// takeRequests returns the requests since the last call, and their bytes.
func (w *witness) takeRequests() ([]*http.Request, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	asks, seen := w.asks, w.seen.String()
	w.asks = nil
	w.seen.Reset()
	return asks, seen
}

// wrong returns the faults of a request.
func wrong(asks []*http.Request, seen string) string {
	for _, r := range asks {
		if r.Host != host && r.Host != host+":80" {
			return fmt.Sprintf("Host %q", r.Host)
		}
		if r.RequestURI != "*" && !strings.HasPrefix(r.RequestURI, "/") {
			return fmt.Sprintf("request for %q", r.RequestURI)
		}
		if len(r.TransferEncoding) > 0 && r.Header.Get("Content-Length") != "" || len(r.Header["Content-Length"]) > 1 {
			return "two lengths"
		}
	}
	return ""
}

func TestSmuggling(t *testing.T) {
	const evil = "GET /evil HTTP/1.1\r\nHost: evil.example\r\n\r\n"
	h := "Host: " + host + "\r\n"
	for name, c := range map[string]struct {
		text  string
		want  int    // maximum of requests that reach the name
		exact bool   // exactly want
		body  string // the name receives it
	}{
		"fine": {"GET / HTTP/1.1\r\n" + h + "\r\n", 1, true, ""},
		"CL and TE, TE wins": {"POST / HTTP/1.1\r\n" + h + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
			evil, 1, false, ""},
		"CL and TE, CL wins": {"POST / HTTP/1.1\r\n" + h +
			fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 5+len(evil)) + evil, 1, false, ""},
		"two CL": {"POST / HTTP/1.1\r\n" + h + "Content-Length: 0\r\nContent-Length: 44\r\n\r\n" + evil, 0, true,
			""},
		"two CL in one line": {"POST / HTTP/1.1\r\n" + h + "Content-Length: 0, 44\r\n\r\n" + evil, 0, true, ""},
		"CL with a sign":     {"POST / HTTP/1.1\r\n" + h + "Content-Length: +44\r\n\r\n" + evil, 0, true, ""},
		"negative CL":        {"POST / HTTP/1.1\r\n" + h + "Content-Length: -1\r\n\r\n" + evil, 0, true, ""},
		"CL in hex":          {"POST / HTTP/1.1\r\n" + h + "Content-Length: 0x2c\r\n\r\n" + evil, 0, true, ""},
		"CL of a GET": {"GET / HTTP/1.1\r\n" + h + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(evil)) + evil, 1, true,
			evil},
		"unknown TE": {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: xchunked\r\n\r\n" + evil, 0, true, ""},
		"two TE": {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\nTransfer-Encoding: " +
			"identity\r\n\r\n0\r\n\r\n" + evil, 0, true, ""},
		"TE list": {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + evil, 0, true,
			""},
		"TE with a tab": {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" + evil, 1, false, ""},
		"TE in quotes": {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" + evil, 0, true,
			""},
		"TE with a vertical tab": {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + evil, 0, true,
			""},
		"TE in HTTP/1.0":                {"POST / HTTP/1.0\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + evil, 1, false, ""},
		"space before the colon":        {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + evil, 0, true, ""},
		"space before the Host's colon": {"GET / HTTP/1.1\r\nHost : evil.example\r\n" + h + "\r\n", 0, true, ""},
		"folded TE": {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + evil, 1, false,
			""},
		"folded Host":                  {"GET / HTTP/1.1\r\n" + "X: y\r\n Host: evil.example\r\n" + h + "\r\n", 1, false, ""},
		"Host continued":               {"GET / HTTP/1.1\r\nHost: " + host + "\r\n .evil.example\r\n\r\n", 0, true, ""},
		"first line is a continuation": {"GET / HTTP/1.1\r\n Host: evil.example\r\n" + h + "\r\n", 0, true, ""},
		"bare LF":                      {"GET / HTTP/1.1\n" + strings.ReplaceAll(h, "\r", "") + "X: a\n\n" + evil, 1, false, ""},
		"bare CR":                      {"GET / HTTP/1.1\r\n" + h + "X: a\rHost: evil.example\r\n\r\n", 0, true, ""},
		"NUL":                          {"GET / HTTP/1.1\r\n" + h + "X: a\x00b\r\n\r\n", 0, true, ""},
		"chunk extension": {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n1;a=\"\n\"\r\nx\r\n0\r\n\r\n" +
			evil, 1, false, ""},
		"chunk extension with LF": {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n2;\nxx\r\n2c\r\n0\r\n\r\n" + evil,
			1, false, ""},
		"chunk size too large": {"POST / HTTP/1.1\r\n" + h +
			"Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\nxx\r\n0\r\n\r\n" + evil, 1, false, ""},
		"chunk without its line end": {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n1\r\nx0\r\n\r\n" + evil, 1, false,
			""},
		"trailers": {"POST / HTTP/1.1\r\n" + h +
			"Trailer: X-T, Host\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: 1\r\nHost: evil.example\r\nContent-Length: 44\r\n\r\n", 1, false, ""},
		"absolute, this host":             {"GET http://" + host + "/x HTTP/1.1\r\n" + h + "\r\n", 1, true, "GET /x "},
		"absolute, this host, other Host": {"GET http://" + host + "/x HTTP/1.1\r\nHost: evil.example\r\n\r\n", 1, false, ""},
		"absolute, other host":            {"GET http://evil.example/ HTTP/1.1\r\n" + h + "\r\n", 0, true, ""},
		"absolute, user":                  {"GET http://" + host + "@evil.example/ HTTP/1.1\r\n" + h + "\r\n", 0, true, ""},
		"absolute, user and this host":    {"GET http://evil.example@" + host + "/ HTTP/1.1\r\n" + h + "\r\n", 0, true, ""},
		"absolute, other scheme":          {"GET https://" + host + "/ HTTP/1.1\r\n" + h + "\r\n", 0, true, ""},
		"absolute in a scheme":            {"GET x:http://evil.example/ HTTP/1.1\r\n" + h + "\r\n", 0, true, ""},
		"absolute in our scheme":          {"GET http:http://evil.example/ HTTP/1.1\r\n" + h + "\r\n", 0, true, ""},
		"absolute without a host":         {"GET http:///x HTTP/1.1\r\n" + h + "\r\n", 1, false, ""},
		"two slashes":                     {"GET //evil.example/x HTTP/1.1\r\n" + h + "\r\n", 1, true, "GET //evil.example/x "},
		"authority as the address":        {"GET evil.example:80 HTTP/1.1\r\n" + h + "\r\n", 0, true, ""},
		"asterisk":                        {"GET * HTTP/1.1\r\n" + h + "\r\n", 0, true, ""},
		"two Hosts, this one first":       {"GET / HTTP/1.1\r\n" + h + "Host: evil.example\r\n\r\n", 0, true, ""},
		"two Hosts, this one last":        {"GET / HTTP/1.1\r\nHost: evil.example\r\n" + h + "\r\n", 0, true, ""},
		"the same Host twice":             {"GET / HTTP/1.1\r\n" + h + h + "\r\n", 0, true, ""},
		"Host with a user":                {"GET / HTTP/1.1\r\nHost: " + host + "@evil.example\r\n\r\n", 0, true, ""},
		"no Host in HTTP/1.0":             {"GET / HTTP/1.0\r\n\r\n", 1, true, ""},
		"no Host in HTTP/1.1":             {"GET / HTTP/1.1\r\n\r\n", 0, true, ""},
		"empty Host":                      {"GET / HTTP/1.1\r\nHost:\r\n\r\n", 0, true, ""},
		"HTTP/0.9":                        {"GET /\r\n" + evil, 0, true, ""},
		"no version that is known":        {"GET / HTTP/1.9\r\n" + h + "\r\n" + evil, 1, false, ""},
		"space in the address":            {"GET /a HTTP/1.1\r\nHost: evil.example HTTP/1.1\r\n" + h + "\r\n", 0, true, ""},
		"second request for another host": {"GET / HTTP/1.1\r\n" + h + "\r\n" + evil, 1, true, ""},
		"CONNECT":                         {"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n" + evil, 0, true, ""},
		"CONNECT to this host":            {"CONNECT " + host + ":80 HTTP/1.1\r\nHost: " + host + ":80\r\n\r\n" + evil, 0, true, ""},
		"CONNECT with a path":             {"CONNECT /x HTTP/1.1\r\n" + h + "\r\n" + evil, 0, true, ""},
		"TRACE":                           {"TRACE / HTTP/1.1\r\n" + h + "\r\n", 0, true, ""},
		"PRI":                             {"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + evil, 0, true, ""},
		"change to HTTP/2": {"GET / HTTP/1.1\r\n" + h + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: " +
			"h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n", 1, true, ""},
		"Host taken away by Connection": {"GET / HTTP/1.1\r\n" + h + "Connection: close, Host\r\n\r\n", 1, true, ""},
		"length taken away by Connection": {"POST / HTTP/1.1\r\n" + h + "Connection: Content-Length\r\nContent-Length: 44\r\n\r\n" + evil, 1,
			false, evil},
		"method with a line": {"GET\r\nX / HTTP/1.1\r\n" + h + "\r\n", 0, true, ""},
		"Expect and no body, then another": {"POST / HTTP/1.1\r\n" + h + "Expect: 100-continue\r\nContent-Length: 44\r\n\r\n" + evil, 1, true,
			evil},
		"Expect something else": {"POST / HTTP/1.1\r\n" + h + "Expect: 100-continue, x\r\nContent-Length: 44\r\n\r\n" + evil, 1,
			true, evil},
		"more headers than fit": {"GET / HTTP/1.1\r\n" + h + "X: " + strings.Repeat("a", 300<<10) + "\r\n\r\n", 0, true, ""},
		"a refused body is not a next request": {"POST http://evil.example/ HTTP/1.1\r\n" + h + fmt.Sprintf("Content-Length: %d\r\n\r\n",
			len(h)+18) + "GET / HTTP/1.1\r\n" + h + "\r\n", 0, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var w witness
			w.hear(t, c.text)
			asks, seen := w.takeRequests()
			if bad := wrong(asks, seen); bad != "" {
				t.Errorf("%s reached the name:\n%s", bad, seen)
			}
			if len(asks) > c.want || c.exact && len(asks) != c.want {
				t.Errorf("%d requests reached the name, want %d:\n%s", len(asks), c.want, seen)
			}
			if lower := strings.ToLower(seen); c.body == "" && strings.Contains(lower, "evil.example") && strings.Contains(lower, "\nhost: evil") ||
				strings.Contains(lower, "upgrade") || strings.Contains(lower, "http2-settings") {
				t.Errorf("this reached the name:\n%s", seen)
			}
			if !strings.Contains(seen, c.body) {
				t.Errorf("%q did not reach the name:\n%s", c.body, seen)
			}
		})
	}
}

// TestSmugglingInHTTP2: HTTP/2, too, has several places for the host.
func TestSmugglingInHTTP2(t *testing.T) {
	for name, c := range map[string]struct {
		fields []string
		want   int // 0: the stream or the connection ends
	}{
		"fine":                    {[]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", host}, 200},
		"Host only":               {[]string{":method", "GET", ":scheme", "http", ":path", "/", "host", host}, 200},
		"both, the same":          {[]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", host, "host", host + ":80"}, 200},
		"another authority":       {[]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "evil.example"}, 403},
		"another authority, Host": {[]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "evil.example", "host", host}, 403},
		"another Host":            {[]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", host, "host", "evil.example"}, 403},
		"two Hosts": {[]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", host, "host", host, "host",
			"evil.example"}, 403},
		"none":                  {[]string{":method", "GET", ":scheme", "http", ":path", "/"}, 403},
		"user":                  {[]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "evil@" + host}, 0},
		"absolute path":         {[]string{":method", "GET", ":scheme", "http", ":path", "http://evil.example/", ":authority", host}, 403},
		"absolute path, scheme": {[]string{":method", "GET", ":scheme", "http", ":path", "https://" + host + "/", ":authority", host}, 403},
		"path in a scheme":      {[]string{":method", "GET", ":scheme", "http", ":path", "x:http://evil.example/", ":authority", host}, 403},
		"path without a slash":  {[]string{":method", "GET", ":scheme", "http", ":path", "evil", ":authority", host}, 0},
		"lines in the path": {[]string{":method", "GET", ":scheme", "http", ":path", "/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
			":authority", host}, 0},
		"lines in a header": {[]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", host, "x",
			"a\r\nhost: evil.example"}, 0},
		"lines in a name": {[]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", host, "x: a\r\nhost",
			"evil.example"}, 0},
		"lines in the method": {[]string{":method", "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\nGET", ":scheme", "http", ":path", "/",
			":authority", host}, 0},
		"chunked": {[]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", host, "transfer-encoding",
			"chunked"}, 400},
		"upgrade": {[]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", host, "upgrade", "websocket"}, 400},
		"CONNECT": {[]string{":method", "CONNECT", ":authority", "evil.example:443"}, 403},
		"CONNECT to a WebSocket": {[]string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/", ":authority", host},
			0},
		"TRACE":                 {[]string{":method", "TRACE", ":scheme", "http", ":path", "/", ":authority", host}, 403},
		"a length, and no body": {[]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", host, "content-length", "10"}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			var h heard
			g := newRig(t, setup{server: clearServer(h.serve)})
			if got := ask2(t, g.dial(), c.fields); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
			if h.count > 0 && (h.host != host || !strings.HasPrefix(h.uri, "/") || h.length > 0 || c.want != 200) {
				t.Errorf("the name heard %s", h.all())
			}
		})
	}
}

// ask2 sends one HTTP/2 request with these fields, and returns its status.
func ask2(t *testing.T, conn net.Conn, fields []string) (status int) {
	t.Helper()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	io.WriteString(conn, http2.ClientPreface)
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.WriteSettings()
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return 0
		}
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			status, _ := strconv.Atoi(frame.PseudoValue("status"))
			return status
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return 0
		}
	}
}

// TestSpacesFromHTTP2: an HTTP/1.1 request line is built from HTTP/2 fields, in which spaces end nothing.
func TestSpacesFromHTTP2(t *testing.T) {
	l := lease(nil)
	g := newRig(t, setup{server: secureServer(t, false, echo), config: l.config(), secure: true})
	r := g.request("GET", "/x", nil)
	r.URL.RawQuery = "a HTTP/1.1&b= c"
	if res, body := g.send(2, r); !strings.HasPrefix(body, "GET /x?a%20HTTP/1.1&b=%20c\n") {
		t.Errorf("%s %q", res.Status, body)
	}
}

func FuzzServe(f *testing.F) {
	h := "Host: " + host + "\r\n"
	for _, seed := range []string{
		"GET / HTTP/1.1\r\n" + h + "\r\n",
		"POST /a?b HTTP/1.1\r\n" + h + "Content-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n" + h + "\r\n",
		"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3;a\r\nabc\r\n0\r\nX: y\r\n\r\nGET http://" + host +
			"/ HTTP/1.1\r\n\r\n",
		"GET x:http://evil/ HTTP/1.1\r\n" + h + "\r\n",
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET //x HTTP/1.1\nHost: x\n\n",
		"OPTIONS * HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var w witness
		w.hear(t, string(text))
		if bad := wrong(w.takeRequests()); bad != "" {
			t.Errorf("%s reached the name after %q", bad, text)
		}
	})
}
