package packages

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/egress"
)

// inside is a client as there is one in a sandbox: it knows only the gateway, as its proxy, and trusts its certificate.
type inside struct {
	*http.Client
	address string // of the gateway
	gateway *egress.Gateway
	sites   *sites
}

func openInside(t *testing.T, set settings, max int64) inside {
	t.Helper()
	s, err := newSites(set, nil, max, cache{}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.secrets.Close)
	r, err := s.relay()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := egress.Open(egress.Config{Proxy: true, Decide: s.decide, Dial: s.dial, Relay: r,
		Decided: func(context.Context, egress.Decision) error { return nil }}, egress.Sockets{Ports: []net.Listener{l}})
	t.Cleanup(g.Close)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.Authority())
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{
		Proxy: func(*http.Request) (*url.URL, error) { return url.Parse("http://" + l.Addr().String()) }, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	t.Cleanup(client.CloseIdleConnections)
	return inside{client, l.Addr().String(), g, s}
}

// ask returns a status and a body, 0 and why if there is no answer.
func (c inside) ask(t *testing.T, method, to string) (int, string) {
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

// TestFetches asks for what may and what may not be had, with and without TLS.
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
	filesURL := strings.Replace(files.URL, "127.0.0.1", "localhost", 1) // which is no name like others to a gateway
	other := start(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other server was reached") }))
	defer other.Close()
	index := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watch(r)
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, filesURL+"/elsewhere", http.StatusFound)
			return
		case "/simple/posted":
			if r.Method != http.MethodGet || r.ContentLength != 0 {
				t.Errorf("%s came through, with %d bytes", r.Method, r.ContentLength)
			}
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "worth-as-much"})
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		user, password, _ := r.BasicAuth()
		to := filesURL
		if r.URL.Path == "/project" { // what a package's author says of it
			to = other.URL
		}
		fmt.Fprintf(w, `<a href="%s/f%%20a.whl?sig=1#sha256=00" data-requires-python="&gt;=3">a</a> <A HREF='../own.whl'>own</A> %s:%s`, to, user, password)
	}))
	defer index.Close()

	var set settings
	base, err := set.take("the index", strings.Replace(index.URL, "://", "://me:hidden-word@", 1)+"/simple")
	if err != nil || base.User != nil {
		t.Fatal(base, err)
	}
	set.untrusted = func(string) bool { return true }
	c := openInside(t, set, 1<<20)
	if status, body := c.ask(t, "GET", filesURL+"/f%20a.whl?sig=1"); !refused(status, body) {
		t.Errorf("before the page: %d %s", status, body)
	}
	if _, page := c.ask(t, "GET", index.URL+"/simple/a/"); !strings.Contains(page, filesURL+"/f%20a.whl?sig=1#sha256=00") || strings.Contains(page, "hidden-word") || !strings.Contains(page, "me:") {
		t.Errorf("page %s: it is to be as it was, but for the password", page)
	}
	c.ask(t, "GET", index.URL+"/project")
	tests := []struct {
		name, method, url string
		status            int // 403: refused
	}{
		{"a linked file", "GET", filesURL + "/f%20a.whl?sig=1", 200},
		{"what the file says of itself", "GET", filesURL + "/f%20a.whl.metadata?sig=1", 200},
		{"written otherwise", "GET", filesURL + "/f%20%61.whl?sig=1", 200},
		{"just whether it is there", "HEAD", filesURL + "/f%20a.whl?sig=1", 200},
		{"another file", "GET", filesURL + "/other.whl", 403},
		{"without what was linked", "GET", filesURL + "/f%20a.whl", 403},
		{"another path of the index", "GET", index.URL + "/else", 200},
		{"before it redirects", "GET", filesURL + "/elsewhere", 403},
		{"it redirects", "GET", index.URL + "/moved", 302},
		{"where it redirects to", "GET", filesURL + "/elsewhere", 200},
		{"another server", "GET", other.URL + "/", 403},
		{"a link of a page that is none of the index", "GET", other.URL + "/f%20a.whl?sig=1", 403},
		{"another name of the index", "GET", strings.Replace(index.URL, "127.0.0.1", "localhost", 1) + "/simple/", 403},
		{"the other scheme", "GET", map[bool]string{true: "https", false: "http"}[base.Scheme == "http"] + strings.TrimPrefix(index.URL, base.Scheme) + "/simple/", 403},
		{"publish", "PUT", index.URL + "/simple/a/", 403},
		{"post", "POST", index.URL + "/simple/a/", 403},
		{"delete", "DELETE", filesURL + "/f%20a.whl?sig=1", 403},
		{"a method of one's own", "EXFILTRATE", index.URL + "/simple/a/", 403},
		{"metadata service", "GET", "http://169.254.169.254/latest", 403},
	}
	for _, tt := range tests {
		status, body := c.ask(t, tt.method, tt.url)
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
	for _, h := range c.gateway.Take() {
		if h.Reason == "" || h.Allowed && h.Name != "127.0.0.1" && h.Name != "localhost" {
			t.Errorf("counted %+v", h)
		}
	}
}

// TestUnknownFiles: what comes in without a known hash counts, whatever the answer's success is called.
func TestUnknownFiles(t *testing.T) {
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		w.WriteHeader(status)
		fmt.Fprint(w, "content")
	}))
	defer index.Close()
	var set settings
	if _, err := set.take("the index", index.URL); err != nil {
		t.Fatal(err)
	}
	for status, want := range map[int]int{200: 1, 203: 1, 206: 1, 226: 1, 404: 0, 500: 0} {
		c := openInside(t, set, 1<<20)
		if got, body := c.ask(t, "GET", fmt.Sprintf("%s/%d", index.URL, status)); got != status || c.sites.unknown != want {
			t.Errorf("%d: got %d %s, and %d unknown files, want %d", status, got, body, c.sites.unknown, want)
		}
	}
}

// TestProxyRequests sends what no client library would.
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
	var set settings
	if _, err := set.take("the index", index.URL); err != nil {
		t.Fatal(err)
	}
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
		c, err := net.Dial("tcp", openInside(t, set, 1<<20).address)
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

// TestLinkedAddresses: the index is on the internet, as far as the gateway can tell, and leads to this machine and its
// neighbours.
func TestLinkedAddresses(t *testing.T) {
	near := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { t.Error("it was reached") }))
	defer near.Close()
	_, port, _ := net.SplitHostPort(near.Listener.Addr().String())
	var set settings
	if _, err := set.take("the index", "http://index.example/simple"); err != nil {
		t.Fatal(err)
	}
	direct := []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "10.0.0.1"}
	for i, host := range append(direct, direct...) {
		if i >= len(direct) { // a proxy of the operator's would connect to it
			set.proxy = func(*url.URL) (*url.URL, error) { return url.Parse(near.URL) }
			if host == "localhost" { // of which the proxy knows more than we do
				continue
			}
		}
		c := openInside(t, set, 1<<20)
		to := "http://" + host + ":" + port + "/x"
		u, _ := url.Parse(to)
		c.sites.add(u, link{why: "linked"})
		if status, body := c.ask(t, "GET", to); status != 403 {
			t.Errorf("%s: got %d %q", host, status, body)
		}
		for _, h := range c.gateway.Take() {
			if h.Allowed {
				t.Errorf("%s: %+v", host, h)
			}
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
	var set settings
	if _, err := set.take("the index", index.URL); err != nil {
		t.Fatal(err)
	}
	status, text := openInside(t, set, 1<<20).ask(t, "GET", index.URL+"/endless")
	if status == 200 || len(text) > 2<<20 {
		t.Errorf("got %d and %d bytes", status, len(text))
	}
}

// TestLinks finds those that indexes mean, and no others.
func TestLinks(t *testing.T) {
	tests := []struct {
		name, page string
		html       bool
		want       []string
	}{
		{"PEP 503 with a base", `<base href="https://files.example/d/"><a href="a.whl#sha256=1">a</a>`, true, []string{"https://files.example/d/a.whl#sha256=1"}},
		{"other elements", `<a name="x">n</a><img src="https://x.example/"><link href="https://x.example/"><a href="http://[::1">f</a>`, true, nil},
		{"PEP 691", `{"files":[{"url":"../../a.whl","size":12345678901234567890,"URL":"https://x.example/"}],"name":"a","versions":["1"]}`, false, []string{"https://index.example/a.whl"}},
		{"npm", `{"name":"a","versions":{"1.0.0":{"dist":{"tarball":"https://index.example:8443/a.tgz"},"Dist":{"tarball":"https://x.example/"},"tarball":"https://x.example/"}}}`, false,
			[]string{"https://index.example:8443/a.tgz"}},
		{"npm, one version", `{"dist":{"tarball":"https://y.example/a.tgz"},"name":"a"}`, false, []string{"https://y.example/a.tgz"}},
		{"other JSON", `[1, {"url": "https://x.example"}]`, false, nil},
		{"not even JSON", `{"files":`, false, nil},
	}
	at, _ := url.Parse("https://index.example/simple/a/")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			links := linksOfJSON
			if tt.html {
				links = linksOfHTML
			}
			var got []string
			links(at, []byte(tt.page), func(u *url.URL, _ string) { got = append(got, u.String()) })
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzLinks(f *testing.F) {
	f.Add(`<base href="//x"><a href="a b#c">`, `{"files":[{"url":"x"}]}`)
	f.Add(`<a href='http://[::1'>`, `{"versions":{"1":{"dist":{"tarball":"http://%zz"}}}}`)
	f.Add("<a href=\"\x00\xff\">", `{"versions":{"1":null},"dist":{}}`)
	at, _ := url.Parse("https://index.example/simple/a/")
	f.Fuzz(func(t *testing.T, page, doc string) {
		s := &sites{outside: &egress.Dialer{}, hosts: map[string]string{}, files: map[string]link{}}
		add := func(u *url.URL, hash string) { s.add(u, link{why: "linked", hash: hash}) }
		linksOfHTML(at, []byte(page), add)
		linksOfJSON(at, []byte(doc), add)
		for key := range s.files {
			if !strings.HasPrefix(key, "http://") && !strings.HasPrefix(key, "https://") {
				t.Errorf("a link leads to %q", key)
			}
		}
	})
}
