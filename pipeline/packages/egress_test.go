package packages

import (
	"bufio"
	"context"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/egress"
)

// inside is a client as there is one in a sandbox: it knows only the gateway, as its proxy, and trusts its certificate.
type inside struct {
	*http.Client
	address    string // of the gateway
	gateway    *egress.Gateway
	registries *registries
}

// settingsFor returns the settings of a package manager with one registry.
func settingsFor(t *testing.T, address string, logins ...login) settings {
	t.Helper()
	set, err := newSettings(configuration{Registries: []source{{address, "the index"}}, Logins: logins, Untrusted: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// lookup is the address of all names.
type lookup string

func (l lookup) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(string(l))}, nil
}

// local is a dialer to which this machine is the internet.
func local() *egress.Dialer {
	return &egress.Dialer{Resolver: lookup("127.0.0.1"), Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

// named returns the address of a server, by a name that local knows.
func named(s *httptest.Server) string { return strings.Replace(s.URL, "127.0.0.1", "files.example", 1) }

func openInside(t *testing.T, set settings, outside *egress.Dialer, wheels bool) inside {
	t.Helper()
	s, err := newRegistries(set, outside, wheels, !wheels, 1<<20, &screen{redact: func(line string) string { return line }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.secrets.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := egress.Open(egress.Config{Proxy: true, Decide: s.decide, Dial: s.dial, Relay: s.relay,
		Decided: func(context.Context, egress.Decision) error { return nil }}, egress.Sockets{Ports: []net.Listener{l}})
	t.Cleanup(g.Close)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.relay.Authority())
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:           func(*http.Request) (*url.URL, error) { return url.Parse("http://" + l.Addr().String()) },
			TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	return inside{client, l.Addr().String(), g, s}
}

// requestInside returns a status and a body, 0 and why if there is no answer.
func (c inside) requestInside(t *testing.T, method, to string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer from-inside")
	r.Header.Set("Cookie", "from=inside")
	r.Header.Set("X-Own", "from-inside")
	answer, err := c.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	if len(answer.Cookies()) > 0 {
		t.Errorf("%s %s: cookies came in", method, to)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(b)
}

// refused tells an answer of the gateway's from others: behind TLS it is no more than an error.
func refused(status int, body string) bool {
	return status == 403 && strings.Contains(body, "sandboxmcp: ") || status == 0 && strings.Contains(body, "Forbidden")
}

// TestFetches requests URLs that are allowed and URLs that are not, with and without TLS.
func TestFetches(t *testing.T) {
	for scheme, start := range map[string]func(http.Handler) *httptest.Server{"http": httptest.NewServer, "https": httptest.NewTLSServer} {
		t.Run(scheme, func(t *testing.T) { testFetches(t, start) })
	}
}

func testFetches(t *testing.T, start func(http.Handler) *httptest.Server) {
	var leaked []string
	watch := func(r *http.Request) {
		for _, values := range r.Header {
			if strings.Contains(strings.Join(values, " "), "inside") {
				leaked = append(leaked, r.URL.Path)
			}
		}
	}
	files := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watch(r)
		if r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprint(w, "file "+r.URL.RequestURI())
	}))
	defer files.Close()
	other := start(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other server was reached") }))
	defer other.Close()
	index := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watch(r)
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, named(files)+"/f%20a.whl?sig=1", http.StatusFound)
			return
		case "/simple/posted":
			if r.Method != http.MethodGet || r.ContentLength != 0 {
				t.Errorf("%s came through, with %d bytes", r.Method, r.ContentLength)
			}
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "worth-as-much"})
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		user, password, _ := r.BasicAuth()
		fmt.Fprintf(w, `<a href="%s/linked.whl#sha256=00">a</a> %s:%s`, named(other), user, password)
	}))
	defer index.Close()

	c := openInside(t, settingsFor(t, index.URL+"/simple", login{URL: index.URL + "/simple", Name: "me", Password: "hidden-word"}), local(),
		false)
	if status, body := c.requestInside(t, "GET", named(files)+"/f%20a.whl?sig=1"); !refused(status, body) {
		t.Errorf("before it redirects: %d %s", status, body)
	}
	if _, page := c.requestInside(t, "GET", index.URL+"/simple/a/"); !strings.Contains(page, named(other)+"/linked.whl#sha256=00") ||
		strings.Contains(page, "hidden-word") || !strings.Contains(page, "me:") {
		t.Errorf("page %s: it is to be as it was, but for the password", page)
	}
	tests := []struct {
		name, method, url string
		status            int // 403: refused
	}{
		{"another path of the index", "GET", index.URL + "/else", 200},
		{"it redirects", "GET", index.URL + "/moved", 302},
		{"where it redirects to", "GET", named(files) + "/f%20a.whl?sig=1", 200},
		{"just whether it is there", "HEAD", named(files) + "/f%20a.whl?sig=1", 200},
		{"another file there", "GET", named(files) + "/other.whl", 403},
		{"without what was named", "GET", named(files) + "/f%20a.whl", 403},
		{"a file of another host that a page links to", "GET", named(other) + "/linked.whl", 403},
		{"another server", "GET", named(other) + "/", 403},
		{"another name of the index", "GET", strings.Replace(index.URL, "127.0.0.1", "localhost", 1) + "/simple/", 403},
		{"the other scheme", "GET", map[bool]string{true: "https", false: "http"}[strings.HasPrefix(index.URL, "http:")] +
			index.URL[strings.Index(index.URL, ":"):] + "/simple/", 403},
		{"publish", "PUT", index.URL + "/simple/a/", 403},
		{"post", "POST", index.URL + "/simple/a/", 403},
		{"delete", "DELETE", named(files) + "/f%20a.whl?sig=1", 403},
		{"a method of one's own", "EXFILTRATE", index.URL + "/simple/a/", 403},
		{"metadata service", "GET", "http://169.254.169.254/latest", 403},
	}
	for _, tt := range tests {
		status, body := c.requestInside(t, tt.method, tt.url)
		if got := refused(status, body); got != (tt.status == 403) || !got && status != tt.status {
			t.Errorf("%s: got %d %q, want %d", tt.name, status, body, tt.status)
		}
	}
	for name, text := range map[string]string{"with a body": "found", "in pieces": ""} {
		r, _ := http.NewRequest("GET", index.URL+"/simple/posted", struct{ io.Reader }{strings.NewReader("found")})
		if r.ContentLength = int64(len(text)); text == "" {
			r.ContentLength = -1
		}
		if answer, err := c.Do(r); err != nil || answer.StatusCode != 403 {
			t.Errorf("%s: %v %v", name, answer, err)
		}
	}
	if leaked != nil {
		t.Errorf("headers from inside went out with %v", leaked)
	}
	for _, h := range c.gateway.TakeRecords() {
		if h.Reason == "" || h.Allowed && h.Name != "127.0.0.1" && h.Name != "files.example" {
			t.Errorf("counted %+v", h)
		}
	}
}

// TestFilesOf: the public registries' files are at hosts of their own, and nothing else is.
func TestFilesOf(t *testing.T) {
	for address, want := range map[string]map[string]bool{
		"https://pypi.org/simple": {"pypi.org:443": true, "files.pythonhosted.org:443": true, "files.pythonhosted.org:80": false,
			"pythonhosted.org:443": false},
		"https://test.pypi.org/simple/":   {"test-files.pythonhosted.org:443": true, "files.pythonhosted.org:443": false},
		"https://npm.example/":            {"npm.example:443": true, "files.pythonhosted.org:443": false},
		"https://pypi.org.example/simple": {"files.pythonhosted.org:443": false},
		"http://pypi.org/simple":          {"files.pythonhosted.org:443": false},
	} {
		c := openInside(t, settingsFor(t, address), nil, true)
		for to, allowed := range want {
			name, port, _ := strings.Cut(to, ":")
			n, _ := strconv.Atoi(port)
			if d := c.registries.decide(t.Context(), name, n); d.Allowed != allowed {
				t.Errorf("%s: %s: %+v", address, to, d)
			}
			if _, err := c.registries.permit(&url.URL{Scheme: map[string]string{"443": "https", "80": "http"}[port], Host: name, Path: "/x"}); (err == nil) != allowed {
				t.Errorf("%s: %s: %v", address, to, err)
			}
		}
	}
}

// TestOnlyWheels: where packages may not run code, nothing that pip would build comes in, wherever it is and whatever
// it is called.
func TestOnlyWheels(t *testing.T) {
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "content") }))
	defer files.Close()
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/moved/"):
			http.Redirect(w, r, named(files)+"/blob?"+path, http.StatusFound)
			return
		case strings.HasSuffix(path, "/"):
			w.Header().Set("Content-Type", "text/html")
		}
		fmt.Fprint(w, "content")
	}))
	defer index.Close()
	for path, allowed := range map[string]bool{"/simple/a/": true, "/a.whl": true, "/a.whl.metadata": true, "/a.tar.gz": false, "/a.zip": false, "/blob": false,
		"/a.tar.gz?a.whl": false, "/a.tar.gz#.whl": false, "/moved/a.whl": true, "/moved/a.tar.gz": false, "/else/": false} {
		for _, wheels := range []bool{true, false} {
			c := openInside(t, settingsFor(t, index.URL+"/simple"), local(), wheels)
			status, body := c.requestInside(t, "GET", index.URL+path)
			if status == http.StatusFound {
				status, body = c.requestInside(t, "GET", named(files)+"/blob?"+path)
			}
			if (status == 200) != (allowed || !wheels) {
				t.Errorf("%s, only wheels %v: %d %s", path, wheels, status, body)
			}
		}
	}
}

// TestReceived: each successful response counts, whatever its status code, and only a whole response has a hash.
func TestReceived(t *testing.T) {
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		if status == 299 {
			w.Header().Set("Content-Length", "100")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, "content")
	}))
	defer index.Close()
	for status, want := range map[int]int{200: 1, 203: 1, 206: 1, 226: 1, 299: 1, 404: 0, 500: 0} {
		c := openInside(t, settingsFor(t, index.URL+"/simple"), nil, false)
		c.requestInside(t, "GET", fmt.Sprintf("%s/%d", index.URL, status))
		c.gateway.Close()
		s := c.registries
		if len(s.received)+s.pending != want || s.pending > 0 != (status == 299) {
			t.Errorf("%d: received %v, %d pending", status, s.received, s.pending)
		}
		sum := sha512.Sum512([]byte("content"))
		named := []Package{{Hash: "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}}
		if got := s.onlyReceived(named); got != (status != 299) {
			t.Errorf("%d: it is what was named: %v", status, got)
		}
		if got := s.onlyReceived([]Package{{Hash: "sha512-other"}}); got != (want == 0) {
			t.Errorf("%d: it is something else that was named: %v", status, got)
		}
		if s.onlyReceived(nil) || s.onlyReceived(append(named, Package{})) {
			t.Errorf("%d: what has no hash is what was named", status)
		}
	}
}

// TestProxyRequests sends requests that no client library would send.
func TestProxyRequests(t *testing.T) {
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			t.Errorf("it was asked for another protocol: %v", r.Header)
		}
		if r.URL.Path != "/ok" {
			t.Errorf("%s %s came through", r.Method, r.URL)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer index.Close()
	set := settingsFor(t, index.URL)
	at := strings.TrimPrefix(index.URL, "http://")
	tunnel := "CONNECT " + at + " HTTP/1.1\r\nHost: x\r\n\r\n"
	for request, want := range map[string]string{
		"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n": "HTTP/1.1 403",
		"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n":                 "HTTP/1.1 400",
		"GET ftp://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n": "HTTP/1.1 400",
		"GET https://" + at + "/x HTTP/1.1\r\nHost: x\r\n\r\n":      "HTTP/1.1 400",
		"GET http:///x HTTP/1.1\r\nHost: a.example\r\n\r\n":         "HTTP/1.1 400",
		"CONNECT a.example:0 HTTP/1.1\r\nHost: x\r\n\r\n":           "HTTP/1.1 400",
		"CONNECT a.example HTTP/1.1\r\nHost: x\r\n\r\n":             "HTTP/1.1 400",
		"CONNECT a..\xff:80 HTTP/1.1\r\nHost: x\r\n\r\n":            "HTTP/1.1 400",
		"nonsense\r\n\r\n": "HTTP/1.1 400",
		"GET http://" + at + "/ok HTTP/1.1\r\nHost: other.example\r\n\r\n":            "HTTP/1.1 204", // the address counts, and is what is sent on
		tunnel + "GET /ok HTTP/1.1\r\nHost: " + at + "\r\n\r\n":                       "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 204",
		tunnel + "GET /ok HTTP/1.1\r\nHost: other.example\r\n\r\n":                    "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 403",
		tunnel + "POST /x HTTP/1.1\r\nHost: " + at + "\r\nContent-Length: 1\r\n\r\nx": "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 403",
		tunnel + "GET http://other.example/ HTTP/1.1\r\nHost: " + at + "\r\n\r\n":     "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 403",
		tunnel + "GET /ok HTTP/1.1\r\nHost: " + at + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n": "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 204",
		tunnel + "\x00\x01 no protocol that is known\r\n\r\n": "HTTP/1.1 200 OK\r\n\r\n",
	} {
		c, err := net.Dial("tcp", openInside(t, set, nil, false).address)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, request)
		answer := make([]byte, len(want))
		io.ReadFull(bufio.NewReader(c), answer)
		if string(answer) != want {
			t.Errorf("%q: got %q, want %s", request, answer, want)
		}
		if strings.Contains(request, "no protocol") {
			if rest, _ := io.ReadAll(c); len(rest) > 0 {
				t.Errorf("it was sent on: %q came back", rest)
			}
		}
		c.Close()
	}
}

// TestRedirectedAddresses: the index is on the internet, as far as the gateway can tell, and redirects to this machine
// and its neighbours.
func TestRedirectedAddresses(t *testing.T) {
	near := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { t.Error("it was reached") }))
	defer near.Close()
	_, port, _ := net.SplitHostPort(near.Listener.Addr().String())
	set := settingsFor(t, "http://index.example/simple")
	direct := []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "10.0.0.1"}
	for i, host := range append(direct, direct...) {
		if i >= len(direct) { // a proxy of the operator's would connect to it
			set.proxy = func(*url.URL) (*url.URL, error) { return url.Parse(near.URL) }
			if host == "localhost" { // of which the proxy knows more than we do
				continue
			}
		}
		c := openInside(t, set, nil, false)
		from, _ := url.Parse("http://index.example/simple/a")
		to, _ := url.Parse("http://" + host + ":" + port + "/x")
		c.registries.noteRedirect(from, to, from)
		if status, body := c.requestInside(t, "GET", to.String()); status != 403 && (status != 502 || host != "localhost") {
			t.Errorf("%s: got %d %q", host, status, body)
		}
	}
	for _, address := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254"} { // by a name that leads there
		c := openInside(t, settingsFor(t, "http://index.example/simple"), &egress.Dialer{Resolver: lookup(address)}, false)
		from, _ := url.Parse("http://index.example/simple/a")
		to, _ := url.Parse("http://files.example:" + port + "/x")
		c.registries.noteRedirect(from, to, from)
		if status, body := c.requestInside(t, "GET", to.String()); status != 403 || !strings.Contains(body, "sandboxmcp: ") {
			t.Errorf("a name of %s: got %d %q", address, status, body)
		}
	}
}

// TestRedirectsStayEncrypted: a redirect leads to no other scheme, and never out of TLS.
func TestRedirectsStayEncrypted(t *testing.T) {
	s := openInside(t, settingsFor(t, "https://index.example/simple"), nil, false).registries
	for _, tt := range []struct {
		from, to string
		want     bool
	}{{"https", "https", true}, {"http", "https", true}, {"http", "http", true}, {"https", "http", false}, {"http", "ftp", false}, {"https", "file", false}} {
		from, to := &url.URL{Scheme: tt.from, Host: "index.example"}, &url.URL{Scheme: tt.to, Host: "files.example", Path: "/" + tt.from}
		s.noteRedirect(from, to, from)
		if _, err := s.permit(to); (err == nil) != tt.want {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// TestTooMuch: a registry can't send without end.
func TestTooMuch(t *testing.T) {
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, err := w.Write(nil); err == nil; _, err = w.Write(make([]byte, 1<<16)) {
		}
	}))
	defer index.Close()
	status, text := openInside(t, settingsFor(t, index.URL), nil, false).requestInside(t, "GET", index.URL+"/endless")
	if status == 200 || len(text) > 2<<20 {
		t.Errorf("got %d and %d bytes", status, len(text))
	}
}
