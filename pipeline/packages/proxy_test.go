package packages

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// inside is a client as there is one in a sandbox: it knows only the proxy.
func inside(t *testing.T, g *proxy) *http.Client {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.serve(context.Background(), l))
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
		},
		Proxy: func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy") },
	}}
}

func ask(t *testing.T, c *http.Client, method, to string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer from-inside")
	r.Header.Set("Cookie", "from=inside")
	answer, err := c.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(b)
}

// TestFetchProxy asks for what may and what may not be had.
func TestFetchProxy(t *testing.T) {
	var leaked []string
	watch := func(r *http.Request) {
		if r.Header.Get("Cookie") != "" || r.Header.Get("Authorization") == "Bearer from-inside" {
			leaked = append(leaked, r.URL.Path)
		}
	}
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watch(r)
		if r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprint(w, "file "+r.URL.RequestURI())
	}))
	defer files.Close()
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watch(r)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		user, password, _ := r.BasicAuth()
		fmt.Fprintf(w, `<a href="%s/f%%20a.whl?sig=1#sha256=00" data-requires-python="&gt;=3">a</a> <A HREF='../own.whl'>own</A> %s:%s`, files.URL, user, password)
	}))
	defer index.Close()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other server was reached") }))
	defer other.Close()

	var set settings
	base, err := set.take("the index", strings.Replace(index.URL, "http://", "http://me:hidden-word@", 1)+"/simple")
	if err != nil || base.User != nil {
		t.Fatal(base, err)
	}
	g := newProxy(set, 1<<20, nil)
	c := inside(t, g)
	if status, body := ask(t, c, "GET", files.URL+"/f%20a.whl?sig=1"); status != 403 || !strings.Contains(body, "none links to it") {
		t.Errorf("before the page: %d %s", status, body)
	}
	_, page := ask(t, c, "GET", index.URL+"/simple/a/")
	if want := `<a href="` + files.URL + `/f%20a.whl?sig=1#sha256=00" data-requires-python="&gt;=3">a</a> <a href="` + index.URL + `/simple/own.whl">own</A> me:hidden-word`; page != want {
		t.Errorf("page %s, want %s", page, want)
	}
	tests := []struct {
		name, method, url string
		status            int
	}{
		{"a linked file", "GET", files.URL + "/f%20a.whl?sig=1", 200},
		{"what the file says of itself", "GET", files.URL + "/f%20a.whl.metadata?sig=1", 200},
		{"written otherwise", "GET", files.URL + "/f%20%61.whl?sig=1", 200},
		{"just whether it is there", "HEAD", files.URL + "/f%20a.whl?sig=1", 200},
		{"another file", "GET", files.URL + "/other.whl", 403},
		{"without what was linked", "GET", files.URL + "/f%20a.whl", 403},
		{"another path of the index", "GET", index.URL + "/else", 200},
		{"another server", "GET", other.URL + "/", 403},
		{"another name of the index", "GET", strings.Replace(index.URL, "127.0.0.1", "localhost", 1) + "/simple/", 403},
		{"a name with a user", "GET", strings.Replace(index.URL, "http://", "http://x:y@", 1) + "/simple/", 200},
		{"publish", "PUT", index.URL + "/simple/a/", 403},
		{"post", "POST", index.URL + "/simple/a/", 403},
		{"delete", "DELETE", files.URL + "/f%20a.whl?sig=1", 403},
		{"metadata service", "GET", "http://169.254.169.254/latest", 403},
	}
	for _, tt := range tests {
		if status, body := ask(t, c, tt.method, tt.url); status != tt.status {
			t.Errorf("%s: got %d %q, want %d", tt.name, status, body, tt.status)
		}
	}
	if leaked != nil {
		t.Errorf("headers from inside went out with %v", leaked)
	}
	for _, h := range g.counters.list() {
		if h.Reason == "" || h.Count == 0 || h.Allowed == (h.Name == "169.254.169.254" || h.Name == "localhost") && h.Name != "127.0.0.1" {
			t.Errorf("counted %+v", h)
		}
	}
}

// TestTunnel tries CONNECT, and requests that name no host.
func TestTunnel(t *testing.T) {
	index := httptest.NewServer(http.NotFoundHandler())
	defer index.Close()
	var set settings
	if _, err := set.take("the index", index.URL); err != nil {
		t.Fatal(err)
	}
	for request, want := range map[string]string{
		"CONNECT " + strings.TrimPrefix(index.URL, "http://") + " HTTP/1.1\r\nHost: x\r\n\r\n": "403",
		"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n":                            "403",
		"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n":                                            "400",
		"GET ftp://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n":                            "403",
		"GET http:///x HTTP/1.1\r\nHost: a.example\r\n\r\n":                                    "400",
		"nonsense\r\n\r\n": "400",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		stop := newProxy(set, 1<<20, nil).serve(context.Background(), l)
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, request)
		answer := make([]byte, 12)
		io.ReadFull(c, answer)
		if !strings.HasSuffix(string(answer), want) {
			t.Errorf("%q: got %q, want %s", request, answer, want)
		}
		c.Close()
		stop()
	}
}

// TestLinkedAddresses: the index is on the internet, as far as the proxy can tell, and links to
// this machine and its neighbours.
func TestLinkedAddresses(t *testing.T) {
	near := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "private") }))
	defer near.Close()
	port := near.URL[strings.LastIndex(near.URL, ":"):]
	var set settings
	if _, err := set.take("the index", "http://index.example/simple"); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "10.0.0.1"} {
		g := newProxy(set, 1<<20, nil)
		at, _ := url.Parse("http://index.example/simple/a/")
		page, err := g.rewrite(at, "text/html", []byte(`<a href="http://`+host+port+`/x">x</a>`))
		if err != nil || !strings.Contains(string(page), host) {
			t.Fatal(string(page), err)
		}
		if status, body := ask(t, inside(t, g), "GET", "http://"+host+port+"/x"); status == 200 || strings.Contains(body, "private") && !strings.Contains(body, "refused") && status != 403 {
			t.Errorf("%s: got %d %q", host, status, body)
		}
		if hosts := g.counters.list(); len(hosts) != 1 || hosts[0].Allowed {
			t.Errorf("%s: %+v", host, hosts)
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
	status, text := ask(t, inside(t, newProxy(set, 1<<20, nil)), "GET", index.URL+"/endless")
	if status == 200 || len(text) > 2<<20 {
		t.Errorf("got %d and %d bytes", status, len(text))
	}
}

// TestPages rewrites what indexes serve, with links that go by TLS.
func TestPages(t *testing.T) {
	tests := []struct{ name, kind, page, want string }{
		{"PEP 503 with a base", "text/html", `<base href="https://files.example/d/"><a href="a.whl#sha256=1">a</a>`, `<a href="http://files.example/d/a.whl#sha256=1">a</a>`},
		{"PEP 691", "application/vnd.pypi.simple.v1+json", `{"files":[{"url":"../../a.whl","size":12345678901234567890,"core-metadata":{"sha256":"x"}}],"name":"a"}`,
			`{"files":[{"core-metadata":{"sha256":"x"},"size":12345678901234567890,"url":"http://index.example/a.whl"}],"name":"a"}`},
		{"npm", "application/vnd.npm.install-v1+json; charset=utf-8", `{"name":"a","versions":{"1.0.0":{"dist":{"tarball":"https://index.example:8443/a.tgz","integrity":"i"}}}}`,
			`{"name":"a","versions":{"1.0.0":{"dist":{"integrity":"i","tarball":"http://index.example:8443/a.tgz"}}}}`},
		{"npm, one version", "application/json", `{"dist":{"tarball":"https://x.example/a.tgz"},"name":"a"}`, `{"dist":{"tarball":"http://x.example/a.tgz"},"name":"a"}`},
		{"other JSON", "application/json", `[1, {"url": "https://x.example"}]`, `[1, {"url": "https://x.example"}]`},
		{"not even JSON", "application/json", `{"files":`, `{"files":`},
		{"other links", "text/html", `<a href="mailto:x">m</a><a href="file:///etc/passwd">f</a><a>n</a><img src="https://x.example/">`, `<a href="mailto:x">m</a><a href="file:///etc/passwd">f</a><a>n</a><img src="https://x.example/">`},
	}
	at, _ := url.Parse("https://index.example/simple/a/")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newProxy(settings{}, 1, nil)
			got, err := g.rewrite(at, tt.kind, []byte(tt.page))
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s %v, want %s", got, err, tt.want)
			}
		})
	}
}

func FuzzPages(f *testing.F) {
	f.Add(`<base href="//x"><a href="a b#c">`, `{"files":[{"url":"x"}]}`)
	f.Add(`<a href='http://[::1'>`, `{"versions":{"1":{"dist":{"tarball":"http://%zz"}}}}`)
	f.Add("<a href=\"\x00\xff\">", `{"versions":{"1":null},"dist":{}}`)
	at, _ := url.Parse("https://index.example/simple/a/")
	f.Fuzz(func(t *testing.T, page, doc string) {
		g := newProxy(settings{}, 1, nil)
		g.rewrite(at, "text/html", []byte(page))
		g.rewrite(at, "application/json", []byte(doc))
		for _, l := range g.links.files {
			if l.to.Scheme != "http" && l.to.Scheme != "https" || l.to.Host == "" {
				t.Errorf("a link leads to %q", l.to)
			}
		}
	})
}
