package relay

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// heard is the last request to a name.
type heard struct {
	mu     sync.Mutex
	count  int
	header http.Header
	uri    string
	host   string
	body   string
	length int64
}

func (h *heard) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	h.count++
	h.header, h.uri, h.host, h.body, h.length = r.Header.Clone(), r.RequestURI, r.Host, string(body), r.ContentLength
	h.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	echo(w, r)
}

func (h *heard) all() string {
	var b strings.Builder
	b.WriteString(h.host + h.uri + "\n")
	h.header.Write(&b)
	return b.String() + h.body
}

func TestPutIn(t *testing.T) {
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	var h heard
	bothSides(t, lease(nil), h.serve, func(t *testing.T, g *rig, major int) {
		escaped := "%73" + placeholder[1:]
		r := g.request("POST", "/path/"+placeholder+"?key="+placeholder+"&again=x"+escaped+"&"+placeholder+"=1&other=%zz;a",
			strings.NewReader(placeholder))
		r.Header.Set("Authorization", "Bearer "+placeholder)
		r.Header.Set("X-Name-It", "x") // header names stay unchanged
		r.Header.Set("X-"+placeholder, "1")
		r.Header["X-Two"] = []string{placeholder, "a " + placeholder + placeholder + " b"}
		r.Header.Set("Grpc-Accept-Encoding", "gzip")
		r.Header.Set("Range", "bytes=0-3")
		r.Header.Set("If-Range", `"v1"`)
		r.AddCookie(&http.Cookie{Name: "session", Value: placeholder})
		res, body := g.send(major, r)
		if h.header["Range"] != nil || h.header["If-Range"] != nil {
			t.Errorf("a part was asked for, in which no value is found: %v", h.header)
		}
		q := percentEncode(value)
		want := "/path/" + placeholder + "?key=" + q + "&again=x" + q + "&" + q + "=1&other=%zz;a"
		if h.uri != want || h.host != host || h.body != placeholder {
			t.Errorf("got  %s%s %q\nwant %s", h.host, h.uri, h.body, want)
		}
		if got, _ := url.ParseQuery(strings.TrimSuffix(strings.SplitN(h.uri, "?", 2)[1], ";a")); got.Get("key") != value {
			t.Errorf("key is %q", got.Get("key"))
		}
		for name, want := range map[string][]string{
			"Authorization": {"Bearer " + value}, "X-Two": {value, "a " + value + value + " b"}, "Cookie": {"session=" + value},
			"Accept-Encoding": {"identity"}, "Grpc-Accept-Encoding": {"identity"},
		} {
			if got := h.header[name]; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		if text := dump(res, body); leaked(text) || !strings.Contains(text, mark) || res.Trailer.Get("X-Trailing") != "Bearer "+mark {
			t.Errorf("came back:\n%s", text)
		}

		for sent, want := range map[string]string{
			basic("user:" + placeholder): basic("user:" + value),
			basic(placeholder + ":"):     basic(value + ":"),
			"basic  " + strings.TrimPrefix(basic("u:"+placeholder), "Basic "): basic("u:" + value),
			strings.TrimRight(basic("user:"+placeholder), "="):                basic("user:" + value),
			basic("user:other"):     basic("user:other"),
			"Basic ?" + placeholder: "Basic ?" + value,
		} {
			r := g.request("GET", "/", nil)
			r.Header.Set("Authorization", sent)
			res, body := g.send(major, r)
			if got := h.header.Get("Authorization"); got != want || leaked(dump(res, body)) {
				t.Errorf("%s: got %s, want %s", sent, got, want)
			}
		}
	})
}

// TestHeaderOfEachRequest: a rule's header is in each request to its name, and the program can neither send another
// value nor read it; over plaintext, where it is not permitted, no request is sent at all.
func TestHeaderOfEachRequest(t *testing.T) {
	var h heard
	injects := func(s *Secret) { s.Header = "X-Api-key" }
	bothSides(t, lease(injects), h.serve, func(t *testing.T, g *rig, major int) {
		r := g.request("GET", "/", nil)
		r.Header["X-Api-Key"] = []string{"of the program", "another"}
		if major == 1 {
			r.Header.Set("Connection", "X-Api-Key") // proxies do not forward such a header
		}
		res, body := g.send(major, r)
		if got := h.header["X-Api-Key"]; len(got) != 1 || got[0] != value {
			t.Errorf("got %q", got)
		}
		if text := dump(res, body); leaked(text) || !strings.Contains(text, mark) {
			t.Errorf("came back:\n%s", text)
		}
	})
	h = heard{}
	g := newRig(t, setup{server: clearServer(h.serve), config: lease(injects).config()})
	if res, body := g.send(1, g.request("GET", "/", nil)); res.StatusCode != 403 || !strings.Contains(body, "use https") || h.count > 0 {
		t.Errorf("in the clear: %s %q, %d requests", res.Status, body, h.count)
	}
}

func TestBodies(t *testing.T) {
	var h heard
	bothSides(t, lease(func(s *Secret) { s.Body = true }), h.serve, func(t *testing.T, g *rig, major int) {
		for _, c := range []struct{ kind, sent, want string }{
			{"application/json; charset=utf-8", `{"key":"` + placeholder + `"}`, `{"key":"` + escapeJSON(value) + `"}`},
			{"application/vnd.api+json", placeholder, escapeJSON(value)},
			{"application/x-www-form-urlencoded", "a=%73" + placeholder[1:] + "&b=" + placeholder, "a=" + percentEncode(value) + "&b=" +
				percentEncode(value)},
			{"text/plain", "a" + placeholder + "%73" + placeholder[1:], "a" + value + "%73" + placeholder[1:]},
			{"", placeholder + placeholder, value + value},
			{"application/grpc+proto", placeholder, placeholder},
			{"text/plain", "nothing in it", "nothing in it"},
			{"text/plain", "", ""},
		} {
			for _, known := range []bool{true, false} {
				r := g.request("POST", "/", strings.NewReader(c.sent))
				if !known && c.sent != "" {
					r.ContentLength = -1
				}
				r.Header.Set("Content-Type", c.kind)
				r.Header.Set("Expect", "100-continue")
				if !known && c.sent != "" {
					r.Trailer = http.Header{"X-End": {"!"}}
				}
				res, body := g.send(major, r)
				if h.body != c.want || leaked(dump(res, body)) || res.StatusCode != 200 {
					t.Errorf("%s %s: got %q, want %q", res.Status, c.kind, h.body, c.want)
				}
				if c.kind != "application/grpc+proto" && h.length != int64(len(c.want)) {
					t.Errorf("%s: the length is %d", c.kind, h.length)
				}
			}
		}
		before := h.count
		r := g.request("POST", "/", strings.NewReader("x"))
		r.Header.Set("Content-Encoding", "gzip")
		if res, _ := g.send(major, r); res.StatusCode != 403 {
			t.Errorf("compressed: %s", res.Status)
		}
		for _, length := range []int64{-1, maxBody + 1} {
			r = g.request("POST", "/", io.LimitReader(endless{}, maxBody+1))
			r.ContentLength = length
			res, err := g.client(major).Do(r)
			if err != nil {
				continue // it was answered before it was completely written
			}
			if res.StatusCode != 413 || res.Header.Get(refusedHeader) == "" {
				t.Errorf("too large: %s", res.Status)
			}
			res.Body.Close()
		}
		r = g.request("POST", "/", strings.NewReader(strings.Repeat(placeholder, maxBody/len(value)+1)))
		if res, _ := g.send(major, r); res.StatusCode != 413 {
			t.Errorf("too large with values: %s", res.Status)
		}
		if h.count != before {
			t.Errorf("%d of them reached the name", h.count-before)
		}
		r = g.request("GET", "/?"+strings.Repeat(placeholder, 2000), nil)
		r.Header.Set("X-Many", strings.Repeat(placeholder, 2000))
		if res, _ := g.send(major, r); res.StatusCode != 200 {
			t.Errorf("many: %s", res.Status)
		}
		if len(g.relay.bodies) != 0 {
			t.Errorf("%d bodies are still held", len(g.relay.bodies))
		}
	})
}

// TestRoom: values grow a request only up to a limit.
func TestRoom(t *testing.T) {
	big := strings.Repeat("v", 2000)
	l := lease(func(s *Secret) { s.Value = func() string { return big } })
	var h heard
	g := newRig(t, setup{server: secureServer(t, false, h.serve), config: l.config(), secure: true})
	r := g.request("GET", "/", nil)
	r.Header.Set("X-Many", strings.Repeat(placeholder, maxAddedHeader/len(big)+1))
	if res, _ := g.send(1, r); res.StatusCode != 413 || h.count > 0 {
		t.Errorf("%s, %d requests", res.Status, h.count)
	}
}

func TestValuesThatFitNoHeader(t *testing.T) {
	for _, v := range []string{"a\r\nX-Evil: 1", "a\nb", "a\rb", "a\x00b", "a\x7fb", "a\x01b"} {
		var h heard
		l := lease(func(s *Secret) { s.Value = func() string { return v }; s.Body = true })
		g := newRig(t, setup{server: secureServer(t, false, h.serve), config: l.config(), secure: true})
		for _, c := range []func(*http.Request){
			func(r *http.Request) { r.Header.Set("X-Key", placeholder) },
			func(r *http.Request) { r.URL.RawQuery = placeholder },
			func(r *http.Request) { r.SetBasicAuth("u", placeholder) },
		} {
			r := g.request("GET", "/", nil)
			c(r)
			if res, body := g.send(1, r); res.StatusCode != 403 || !strings.Contains(body, "API_KEY") || strings.Contains(body, v) || h.count > 0 {
				t.Errorf("%q: %s %q, %d requests", v, res.Status, body, h.count)
			}
		}
		if _, _ = g.send(1, g.request("POST", "/", strings.NewReader(placeholder))); h.body != v {
			t.Errorf("in a body: %q", h.body)
		}
	}
}

func TestOtherNamesGetNothing(t *testing.T) {
	var h heard
	l := lease(func(s *Secret) { s.Body = true; s.Require = true })
	bound := l.Bound
	l.Bound = func(name string, port int) bool { return port == 443 && bound(name, port) }
	send := func(g *rig, method string) *http.Response {
		r := g.request(method, "/?q="+placeholder, strings.NewReader(placeholder))
		r.Header.Set("X-Key", placeholder)
		r.SetBasicAuth("u", placeholder)
		res, _ := g.send(1, r)
		return res
	}
	// The same name on another port counts as another name.
	for _, s := range []setup{
		{server: clearServer(h.serve), config: l.config()},
		{server: secureServer(t, true, h.serve), config: l.config(), secure: true, port: 8443},
	} {
		g := newRig(t, s)
		if res := send(g, "POST"); s.secure == (res.StatusCode == 200) && leaked(h.all()) || !s.secure &&
			(leaked(h.all()) || h.body != placeholder) {
			t.Errorf("%s, the name heard\n%s", res.Status, h.all())
		}
	}
}

// TestInTheClear: a value is sent over plaintext only where that is permitted.
func TestInTheClear(t *testing.T) {
	for _, may := range []bool{false, true} {
		var h heard
		l := lease(func(s *Secret) { s.Clear = func(string, int) bool { return may } })
		g := newRig(t, setup{server: clearServer(h.serve), config: l.config()})
		protocols(t, func(t *testing.T, major int) {
			for i, change := range []func(*http.Request){
				func(r *http.Request) { r.Header.Set("X-Key", placeholder) },
				func(r *http.Request) { r.SetBasicAuth("u", placeholder) },
				func(r *http.Request) { r.URL.RawQuery = "%73" + placeholder[1:] },
				func(r *http.Request) {},
			} {
				h = heard{}
				r := g.request("GET", "/", nil)
				change(r)
				res, body := g.send(major, r)
				carries := i < 3
				if wantStatus := map[bool]int{true: 403, false: 200}[carries && !may]; res.StatusCode != wantStatus {
					t.Errorf("may %v, %d: %s %q", may, i, res.Status, body)
				}
				if got := leaked(h.uri + fmt.Sprint(h.header)); got != (carries && may) || leaked(dump(res, body)) {
					t.Errorf("may %v, %d: the name heard %q, the program %q", may, i, h.all(), dump(res, body))
				}
			}
		})
	}
	l := lease(func(s *Secret) { s.Require = true })
	g := newRig(t, setup{server: clearServer(echo), config: l.config()})
	if res, body := g.send(1, g.request("GET", "/", nil)); res.StatusCode != 403 || !strings.Contains(body, "use https") {
		t.Errorf("required, in the clear: %s %q", res.Status, body)
	}
}

func TestClosedLease(t *testing.T) {
	var h heard
	l := lease(nil)
	g := newRig(t, setup{server: secureServer(t, false, h.serve), config: l.config(), secure: true})
	r := g.request("GET", "/", nil)
	r.Header.Set("X-Key", placeholder)
	if res, _ := g.send(1, r.Clone(context.Background())); res.StatusCode != 200 {
		t.Fatal(res.Status)
	}
	l.close()
	if res, body := g.send(1, r); res.StatusCode != 403 || !strings.Contains(body, "the lease of the secret") || h.count != 1 {
		t.Errorf("%s %q", res.Status, body)
	}
}

// TestLastBytesAreLost: a response whose last bytes could not be redacted is cut off, and does not look complete.
func TestLastBytesAreLost(t *testing.T) {
	c := lease(nil).config()
	c.Redactor = func(w io.Writer) io.WriteCloser { return keepsBack{} }
	g := newRig(t, setup{secure: true, config: c, server: secureServer(t, true, echo)})
	protocols(t, func(t *testing.T, major int) {
		res, err := g.client(major).Do(g.request("POST", "/", strings.NewReader(placeholder)))
		if err != nil {
			return
		}
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("%s %q", res.Status, body)
		}
	})
}

// keepsBack is a Redactor whose lease was already closed.
type keepsBack struct{}

func (keepsBack) Write(p []byte) (int, error) { return len(p), nil }
func (keepsBack) Close() error                { return errors.New("closed") }

// TestLeaseClosesBeforeTheAnswer: a response that comes after the lease was closed can't be redacted, so it is not
// passed on.
func TestLeaseClosesBeforeTheAnswer(t *testing.T) {
	for _, when := range []string{"headers", "body", "trailer", "hints"} {
		l := lease(nil)
		g := newRig(t, setup{secure: true, config: l.config(), server: secureServer(t, false, func(w http.ResponseWriter, r *http.Request) {
			if when == "headers" {
				l.close()
			}
			if when == "hints" {
				l.close()
				w.Header().Set("X-Back", r.Header.Get("X-Key"))
				w.WriteHeader(103)
			}
			w.Header().Set("Trailer", "X-T")
			if when == "headers" {
				w.Header().Set("X-Back", r.Header.Get("X-Key"))
			}
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})})
		if when == "body" || when == "trailer" {
			first := make(chan struct{})
			g = newRig(t, setup{secure: true, config: l.config(), server: secureServer(t, false, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Trailer", "X-T")
				w.(http.Flusher).Flush()
				<-first
				if when == "body" {
					io.WriteString(w, r.Header.Get("X-Key"))
				}
				w.Header().Set("X-T", r.Header.Get("X-Key"))
			})})
			r := g.request("GET", "/", nil)
			r.Header.Set("X-Key", placeholder)
			res, err := g.client(1).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			l.close()
			close(first)
			body, err := io.ReadAll(res.Body)
			if err == nil || leaked(dump(res, string(body))) {
				t.Errorf("%s: %v\n%s", when, err, dump(res, string(body)))
			}
			continue
		}
		var hints []string
		r := g.request("GET", "/", nil)
		r.Header.Set("X-Key", placeholder)
		r = r.WithContext(httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { hints = append(hints, fmt.Sprint(h)); return nil },
		}))
		if res, body := g.send(1, r); res.StatusCode != 502 || leaked(dump(res, body)+fmt.Sprint(hints)) {
			t.Errorf("%s: %s %q", when, dump(res, body), hints)
		}
	}
}

func TestAnswers(t *testing.T) {
	pack := func(w io.WriteCloser, b *bytes.Buffer, text string) string {
		io.WriteString(w, text)
		w.Close()
		return b.String()
	}
	gz := func(s string) string { var b bytes.Buffer; return pack(gzip.NewWriter(&b), &b, s) }
	zl := func(s string) string { var b bytes.Buffer; return pack(zlib.NewWriter(&b), &b, s) }
	fl := func(s string) string { var b bytes.Buffer; w, _ := flate.NewWriter(&b, 9); return pack(w, &b, s) }
	type answer struct {
		status   int
		encoding string
		body     func(v string) string
		header   http.Header
	}
	same := func(v string) string { return "<" + v + ">" }
	for name, c := range map[string]struct {
		method string
		answer answer
		status int
		want   string
	}{
		"plain":       {"GET", answer{body: same}, 200, "<" + mark + ">"},
		"gzip":        {"GET", answer{encoding: "gzip", body: func(v string) string { return gz(same(v)) }}, 200, "<" + mark + ">"},
		"x-gzip":      {"GET", answer{encoding: "X-Gzip", body: func(v string) string { return gz(same(v)) }}, 200, "<" + mark + ">"},
		"deflate":     {"GET", answer{encoding: "deflate", body: func(v string) string { return zl(same(v)) }}, 200, "<" + mark + ">"},
		"raw deflate": {"GET", answer{encoding: "deflate", body: func(v string) string { return fl(same(v)) }}, 200, "<" + mark + ">"},
		"brotli":      {"GET", answer{encoding: "br", body: same}, 502, "hides what is in it"},
		"twice": {"GET", answer{encoding: "gzip, gzip", body: func(v string) string { return gz(gz(same(v))) }}, 502,
			"hides what is in it"},
		"part of gzip": {"GET", answer{status: 206, encoding: "gzip", body: func(v string) string { return gz(same(v)) }}, 502,
			"a part of something"},
		"part": {"GET", answer{status: 206, body: same, header: http.Header{"Content-Range": {"bytes 1-2/3"}}}, 206,
			"<" + mark + ">"},
		"HEAD":             {"HEAD", answer{encoding: "br", body: same}, 200, ""},
		"empty":            {"GET", answer{encoding: "br", body: func(string) string { return "" }}, 200, ""},
		"error":            {"GET", answer{status: 401, body: same}, 401, "<" + mark + ">"},
		"redirect":         {"GET", answer{status: 302, body: same}, 302, "<" + mark + ">"},
		"cut beginning":    {"GET", answer{body: func(v string) string { return v[:len(v)-1] }}, 200, value[:len(value)-1]},
		"one after other":  {"GET", answer{body: func(v string) string { return v + v[:3] + v }}, 200, mark + value[:3] + mark},
		"nothing modified": {"GET", answer{status: 304, encoding: "br", body: func(string) string { return "" }}, 304, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bothSides(t, lease(nil), func(w http.ResponseWriter, r *http.Request) {
				a, v := c.answer, r.Header.Get("X-Key")
				for name, values := range a.header {
					w.Header()[name] = values
				}
				if a.encoding != "" {
					w.Header().Set("Content-Encoding", a.encoding)
				}
				body := a.body(v)
				w.Header().Set("Content-Length", fmt.Sprint(len(body)))
				w.Header().Set("Location", "https://other.example/?k="+percentEncode(v))
				w.Header().Set("Alt-Svc", `h3=":443"`)
				w.Header().Set("Set-Cookie", "a="+v)
				w.Header()["X-"+v[:6]] = []string{"1"}
				w.Header().Set("Etag", `"e"`)
				w.WriteHeader(max(a.status, 200))
				if r.Method != "HEAD" && a.status != 304 {
					io.WriteString(w, body)
				}
			}, func(t *testing.T, g *rig, major int) {
				r := g.request(c.method, "/", nil)
				r.Header.Set("X-Key", placeholder)
				res, body := g.send(major, r)
				if res.StatusCode != c.status || c.status == 502 && !strings.Contains(body, c.want) || c.status != 502 && body != c.want {
					t.Errorf("%s %q", res.Status, body)
				}
				if leaked(dump(res, body)) {
					t.Errorf("came back:\n%s", dump(res, body))
				}
				if c.status == 502 {
					return
				}
				if res.Header.Get("Alt-Svc") != "" || res.Header.Get("Etag") != `"e"` || res.Header.Get("Set-Cookie") != "a="+mark {
					t.Errorf("%v", res.Header)
				}
				if c.method == "HEAD" && res.ContentLength != int64(len(same(value))) {
					t.Errorf("HEAD says %d", res.ContentLength)
				}
			})
		})
	}
}

// TestOtherPlacesInAnswers: 1xx responses and header names are redacted, too.
func TestOtherPlacesInAnswers(t *testing.T) {
	const unmarked = "lower-case-value-1234"
	l := lease(func(s *Secret) {
		s.Value = func() string { return strings.Join([]string{"lower", "case", "value", "1234"}, "-") }
	})
	c := l.config()
	c.Redact = func(s string) string { return strings.ReplaceAll(s, unmarked, mark) }
	g := newRig(t, setup{secure: true, config: c, server: secureServer(t, true, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", r.Header.Get("X-Key"))
		w.Header().Set("Alt-Svc", "h3")
		w.WriteHeader(103)
		w.Header().Set("X-"+r.Header.Get("X-Key"), "1")
		w.Header().Set("Trailer", "X-T")
		io.WriteString(w, "body")
		w.Header().Set(http.TrailerPrefix+"X-"+r.Header.Get("X-Key"), "1")
	})})
	protocols(t, func(t *testing.T, major int) {
		var hints []textproto.MIMEHeader
		r := g.request("GET", "/", nil)
		r.Header.Set("X-Key", placeholder)
		r = r.WithContext(httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { hints = append(hints, h); return nil },
		}))
		res, body := g.send(major, r)
		if len(hints) != 1 || hints[0].Get("Link") != mark || hints[0].Get("Alt-Svc") != "" {
			t.Errorf("hints %v", hints)
		}
		if text := strings.ToLower(dump(res, body)); strings.Contains(text, unmarked) {
			t.Errorf("came back:\n%s", text)
		}
	})
}

// TestErrorsQuoteNothing: errors about responses that are not HTTP do not quote them.
func TestErrorsQuoteNothing(t *testing.T) {
	l := lease(nil)
	server := secureServer(t, false, func(w http.ResponseWriter, r *http.Request) {
		conn, _, _ := http.NewResponseController(w).Hijack()
		fmt.Fprintf(conn, "HTTP/1.1 %s no status\r\n\r\n", r.Header.Get("X-Key"))
		conn.Close()
	})
	g := newRig(t, setup{server: server, config: l.config(), secure: true})
	r := g.request("GET", "/", nil)
	r.Header.Set("X-Key", placeholder)
	if res, body := g.send(1, r); res.StatusCode != 502 || strings.Contains(body, value[:4]) {
		t.Errorf("%s %q", res.Status, body)
	}
}

// TestStatusTextIsRedacted: the status text of an upgrade takes a separate code path.
func TestStatusTextIsRedacted(t *testing.T) {
	g := newRig(t, setup{server: clearServer(socket(t, acceptKey)), config: lease(func(s *Secret) {
		s.Clear = func(string, int) bool { return true }
	}).config()})
	talk(t, g.dial())
}
