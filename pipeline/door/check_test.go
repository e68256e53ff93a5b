package door

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func TestHost(t *testing.T) {
	tcp, _ := start(t, Config{Hosts: []string{"Sandbox.example.com", "2001:db8::1"}}, usual)
	port := tcp.Address()[strings.LastIndex(tcp.Address(), ":"):]
	bare, _ := start(t, Config{Address: unixPrefix + filepath.Join(t.TempDir(), "s")}, usual)
	proxied, _ := start(t, Config{Address: unixPrefix + filepath.Join(t.TempDir(), "s"), Hosts: []string{"sandbox.example.com"}}, usual)
	for _, tt := range []struct {
		d           *Door
		host        string
		status, set int // of the handler, and of a probe
	}{
		{tcp, "127.0.0.1" + port, 200, 200},
		{tcp, "127.0.0.1:99", 200, 200}, // the port that a container has outside
		{tcp, "localhost" + port, 200, 200},
		{tcp, "LOCALHOST.", 200, 200},
		{tcp, "[::1]" + port, 200, 200},
		{tcp, "sandbox.example.com", 200, 200},
		{tcp, "[2001:db8::1]", 200, 200},
		{tcp, "rebound.example.net" + port, 421, 421},
		{tcp, "localhost.example.net", 421, 421},
		{tcp, "127.0.0.1.example.net", 421, 421},
		{tcp, "localhost@example.net", 421, 421},
		{tcp, "192.0.2.1" + port, 421, 200},
		{tcp, "0x7f.1", 421, 421},
		{bare, "localhost", 200, 200},
		{bare, "whatever.example.net", 421, 421},
		{bare, "127.0.0.1", 421, 200},
		{proxied, "sandbox.example.com:8443", 200, 200},
		{proxied, "localhost", 421, 200},
		{proxied, "127.0.0.1", 421, 200},
		{proxied, "rebound.example.net", 421, 421},
	} {
		for path, want := range map[string]int{"/mcp": tt.status, "/readyz": tt.set} {
			status, body, h := request(t, tt.d, "POST", path, "Host", tt.host)
			if path == "/readyz" {
				status, body, h = request(t, tt.d, "GET", path, "Host", tt.host)
			}
			if status != want {
				t.Errorf("%s, Host %s, %s: got %d %s, want %d", tt.d.Address(), tt.host, path, status, body, want)
			}
			if status == 421 && (strings.Contains(body, "localhost") != tt.d.onUnix || !strings.Contains(body, `"error":`) ||
				!strings.Contains(body, "http.hosts") || h.Get("Content-Type") != "application/json") {
				t.Errorf("Host %s: got %s %v", tt.host, body, h)
			}
		}
	}
	for path, want := range map[string]string{"/mcp": " 421 ", "/readyz": " 200 "} {
		for _, d := range []*Door{tcp, bare, proxied} {
			if got := raw(t, d, "GET "+path+" HTTP/1.0\r\n\r\n"); !strings.Contains(got, want) {
				t.Errorf("%s, no Host, %s: got %s", d.Address(), path, got)
			}
		}
	}
}

func TestOrigin(t *testing.T) {
	const app = "https://app.example.com"
	open, _ := start(t, Config{Origins: []string{app, "http://localhost:5173"}}, usual)
	closed, _ := start(t, Config{}, usual)
	proxied, _ := start(t, Config{Address: unixPrefix + filepath.Join(t.TempDir(), "s"), Hosts: []string{"sandbox.example.com"}}, usual)
	own := func(d *Door) string { return d.Address() }
	for name, tt := range map[string]struct {
		d       *Door
		headers []string
		status  int
		allowed string // Access-Control-Allow-Origin
	}{
		"no browser":          {closed, nil, 200, ""},
		"same origin":         {closed, []string{"Origin", own(closed)}, 200, ""},
		"another port":        {closed, []string{"Origin", "http://127.0.0.1:1"}, 403, ""},
		"another scheme":      {closed, []string{"Origin", strings.Replace(own(closed), "http", "https", 1)}, 403, ""},
		"foreign":             {closed, []string{"Origin", "https://evil.example.net"}, 403, ""},
		"null":                {closed, []string{"Origin", "null"}, 403, ""},
		"empty":               {closed, []string{"Origin", ""}, 403, ""},
		"not configured":      {closed, []string{"Origin", app}, 403, ""},
		"image":               {closed, []string{"Sec-Fetch-Site", "cross-site"}, 403, ""},
		"image of a sibling":  {closed, []string{"Sec-Fetch-Site", "same-site"}, 403, ""},
		"typed":               {closed, []string{"Sec-Fetch-Site", "none"}, 200, ""},
		"configured":          {open, []string{"Origin", app, "Sec-Fetch-Site", "cross-site"}, 200, app},
		"configured port":     {open, []string{"Origin", "http://localhost:5173"}, 200, "http://localhost:5173"},
		"same, beside others": {open, []string{"Origin", own(open)}, 200, ""},
		"null beside others":  {open, []string{"Origin", "null"}, 403, ""},
		"longer":              {open, []string{"Origin", app + ".evil.example.net"}, 403, ""},
		"two":                 {open, []string{"Origin", app, "Origin", "https://evil.example.net"}, 403, ""},
		"through a proxy":     {proxied, []string{"Host", "sandbox.example.com", "Origin", "https://sandbox.example.com"}, 200, ""},
		"proxy, foreign":      {proxied, []string{"Host", "sandbox.example.com", "Origin", "https://evil.example.net"}, 403, ""},
	} {
		status, body, h := request(t, tt.d, "POST", "/mcp", tt.headers...)
		if status != tt.status || h.Get("Access-Control-Allow-Origin") != tt.allowed {
			t.Errorf("%s: got %d %s %v, want %d", name, status, body, h, tt.status)
		}
		if exposed := h.Get("Access-Control-Expose-Headers"); (tt.allowed != "") != (exposed == "Mcp-Session-Id, WWW-Authenticate") ||
			(tt.d == open && status == 200) != (h.Get("Vary") == "Origin") {
			t.Errorf("%s: got %v", name, h)
		}
	}
	for name, tt := range map[string]struct {
		d      *Door
		origin string
		status int
	}{"configured": {open, app, 204}, "foreign": {open, "https://evil.example.net", 403}, "null": {open, "null", 403},
		"none configured": {closed, app, 403}} {
		status, _, h := request(t, tt.d, "OPTIONS", "/mcp", "Origin", tt.origin, "Access-Control-Request-Method", "POST",
			"Access-Control-Request-Headers", "authorization")
		if allowed := h.Get("Access-Control-Allow-Headers"); status != tt.status || (status == 204) != strings.Contains(allowed,
			"Authorization, Content-Type, Mcp-Session-Id") || h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("preflight, %s: got %d %v", name, status, h)
		}
	}
	if got := raw(t, closed, "OPTIONS * HTTP/1.1\r\nHost: evil.example.net\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got,
		"HTTP/1.1 421 ") {
		t.Errorf("OPTIONS *: got %s", got)
	}
}

func TestHealth(t *testing.T) {
	failed := true
	d, log := start(t, Config{Ready: func() error {
		if failed {
			return errors.New("nothing can be written")
		}
		return nil
	}}, usual)
	for _, tt := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/healthz", 200, `{"status":"ok"}`}, {"HEAD", "/healthz", 200, ""}, {"POST", "/healthz", 405, "send GET"},
		{"OPTIONS", "/readyz", 405, "send GET"},
		{"GET", "/readyz", 503, `{"reason":"nothing can be written","status":"not ready"}`}, {"GET", "/readyz", 503, "not ready"},
		{"GET", "/healthz/", 200, "HTTP/1.1 /healthz/ 0"},
	} {
		if status, body, _ := request(t, d, tt.method, tt.path); status != tt.status || !strings.Contains(body, tt.body) {
			t.Errorf("%s %s: got %d %s, want %d %s", tt.method, tt.path, status, body, tt.status, tt.body)
		}
	}
	if n := strings.Count(log.String(), "nothing can be written"); n != 1 {
		t.Errorf("the log says %d times why: %s", n, log)
	}
	failed = false
	if status, body, _ := request(t, d, "GET", "/readyz"); status != 200 {
		t.Errorf("got %d %s", status, body)
	}
}

// A panic is logged with its place, and without any text of the request.
func TestPanic(t *testing.T) {
	d, log := start(t, Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/begun":
			fmt.Fprint(w, "half")
			w.(http.Flusher).Flush()
		case "/index":
			_ = []int{}[len(r.URL.Path)]
		}
		panic(fmt.Errorf("what is %s", r.URL.Query().Get("token")))
	})}, usual)
	for _, path := range []string{"/", "/index", "/begun"} {
		w, err := clientOf(t, d).Get(d.Address() + path + "?token=" + secret)
		if err == nil {
			_, err = io.ReadAll(w.Body)
			w.Body.Close()
		}
		if err == nil {
			t.Errorf("%s: an answer that broke off is whole", path)
		}
	}
	if got := log.String(); strings.Count(got, "check_test.go") < 3 || strings.Count(got, "type=*fmt.wrapError")+
		strings.Count(got, "type=*errors.errorString") != 2 || !strings.Contains(got, "type=runtime.boundsError") {
		t.Errorf("the log: %s", got)
	}
}

func TestCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		c    Config
		want string
	}{
		"zero": {Config{}, ""},
		"all": {Config{Address: "unix:/a", Group: "x", Cert: "a", Key: "b", ClientCA: "c",
			Hosts: []string{"a", "a.example", "::1", "[::1]", "10.0.0.1"}, Origins: []string{"https://a:1"}}, ""},
		"no key":            {Config{Cert: "a"}, "tls_key"},
		"no certificate":    {Config{Key: "a"}, "tls_cert"},
		"client CA alone":   {Config{ClientCA: "a"}, "client_ca"},
		"group on TCP":      {Config{Address: "127.0.0.1:0", Group: "x"}, "socket_group"},
		"relative socket":   {Config{Address: "unix:a"}, "absolute"},
		"abstract socket":   {Config{Address: "unix:@a"}, "absolute"},
		"host with port":    {Config{Hosts: []string{"a:1"}}, "without a port"},
		"address with port": {Config{Hosts: []string{"[::1]:1"}}, "without a port"},
		"URL as host":       {Config{Hosts: []string{"http://a"}}, "is not a host"},
		"any host":          {Config{Hosts: []string{"*"}}, "is not a host"},
		"no host":           {Config{Hosts: []string{""}}, "is not a host"},
		"any origin":        {Config{Origins: []string{"*"}}, "is not an origin"},
		"any name":          {Config{Origins: []string{"https://*.example"}}, "is not an origin"},
		"null":              {Config{Origins: []string{"null"}}, "is not an origin"},
		"slash":             {Config{Origins: []string{"https://a/"}}, "is not an origin"},
		"capitals":          {Config{Origins: []string{"https://A"}}, "is not an origin"},
	} {
		if err := tt.c.Check(); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
}

// Requests that a proxy and this server could take for different ones are refused, or the last ones of their
// connection.
func TestSmuggled(t *testing.T) {
	var paths hosttest.Buffer
	d, _ := start(t, Config{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(&paths, r.URL.Path)
		_, _ = io.Copy(io.Discard, r.Body)
	})}, usual)
	const next = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	for name, tt := range map[string]struct{ request, want string }{
		"whole":              {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1", "200"},
		"two hosts":          {"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example.net\r\n\r\n" + next, "400"},
		"no host":            {"GET / HTTP/1.1\r\n\r\n" + next, "400"},
		"no host, 1.0":       {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + next, "421"},
		"host in the line":   {"GET http://evil.example.net/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "421"},
		"space before colon": {"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n" + next, "400"},
		"length and chunks": {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
			next, "200"},
		"chunks and length": {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" +
			next, "200"},
		"two lengths":      {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n1" + next, "400"},
		"list of lengths":  {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1, 1\r\n\r\n1" + next, "400"},
		"length with sign": {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +1\r\n\r\n1" + next, "400"},
		"unknown encoding": {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + next, "501"},
		"two encodings": {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: " +
			"identity\r\n\r\n0\r\n\r\n" + next, "501"},
		"chunks in 1.0": {"POST / HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nTransfer-Encoding: " +
			"chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + next, "200"},
		"chunk of a wrong size":  {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n1\r\n0\r\n\r\n" + next, "200"},
		"header over two lines":  {"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n Host: evil.example.net\r\nConnection: close\r\n\r\n", "200"},
		"NUL":                    {"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n" + next, "400"},
		"HTTP/2 without TLS":     {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + next, "421"},
		"plain beside a version": {"GET / HTTP/1.2\r\nHost: localhost\r\nConnection: close\r\n\r\n", "200"},
	} {
		got := raw(t, d, tt.request)
		if n := strings.Count(got, "HTTP/1.1 ") + strings.Count(got, "HTTP/1.0 "); n != 1 || !strings.Contains(strings.SplitN(got, "\r\n", 2)[0],
			" "+tt.want+" ") {
			t.Errorf("%s: %d answers, want a %s: %q", name, n, tt.want, got)
		}
	}
	if strings.Contains(paths.String(), "smuggled") {
		t.Errorf("handled: %s", &paths)
	}
}

// TestTooLongAtOnce: a client that announces too long a body is refused before the body arrives.
func TestTooLongAtOnce(t *testing.T) {
	b := usual
	b.body = time.Hour
	d, _ := start(t, Config{}, b)
	got := raw(t, d, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000000\r\n\r\n1")
	if !strings.HasPrefix(got, "HTTP/1.1 413 ") || !strings.Contains(got, "more than 16 MiB") {
		t.Errorf("got %q", got)
	}
}

// Nothing that a request says makes the checks panic, or lets a foreign name in.
func FuzzCheck(f *testing.F) {
	d := &Door{c: Config{Origins: []string{"https://app.example.com"}}, hosts: []string{"sandbox.example.com"}}
	f.Add("localhost:1", "http://localhost:1")
	f.Add("[::1]", "null")
	f.Add("[", "://")
	f.Add("sandbox.example.com.", "https://app.example.com")
	f.Fuzz(func(t *testing.T, host, origin string) {
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.Host, r.Header["Origin"] = host, []string{origin}
		if d.rightHost(r, false) && strings.Contains(strings.ToLower(host), "evil") && !strings.Contains(host, ":") {
			t.Errorf("Host %q is right", host)
		}
		if d.rightOrigin(r) && origin != "https://app.example.com" && !strings.EqualFold(origin, "http://"+host) &&
			!strings.HasSuffix(strings.ToLower(origin), "://"+strings.ToLower(host)) {
			t.Errorf("Origin %q is right for %q", origin, host)
		}
	})
}

// TestApart: names at which others answer are passed on, with their own probes and origins, and no other name is.
func TestApart(t *testing.T) {
	d, _ := start(t, Config{Apart: func(host string) bool { return strings.HasPrefix(host, "8000-") }, Open: func(r *http.Request) bool {
		return r.Header.Get("Key") != ""
	}}, usual)
	for _, tt := range []struct {
		path    string
		headers []string
		status  int
		body    string
	}{
		{"/healthz", []string{"Host", "8000-x.example.com", "Origin", "https://evil.example"}, 200, "/healthz"},
		{"/x", []string{"Host", "8001-x.example.com"}, 421, "http.hosts"},
		{"/x", []string{"Origin", "https://evil.example"}, 403, "origin"}, {"/x", []string{"Origin", "https://evil.example", "Key", "k"}, 200,
			"/x"},
		{"/x", []string{"Host", "evil.example", "Key", "k"}, 421, "http.hosts"},
	} {
		if status, body, h := request(t, d, "GET", tt.path, tt.headers...); status != tt.status || !strings.Contains(body, tt.body) ||
			h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %v: got %d %s %v", tt.path, tt.headers, status, body, h)
		}
	}
}
