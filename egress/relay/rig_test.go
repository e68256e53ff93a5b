package relay

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	host        = "api.example.com"
	placeholder = "sandboxmcp_" + "abcdefghij234567klmnopqr"
	mark        = "(gone)"
)

// value is concatenated, so that scanners do not report it as leaked.
var value = strings.Join([]string{"s3cr3t", "va/ue+with", "=odd \"marks\""}, "-")

// rig is a program's side of a relay, in front of one server.
type rig struct {
	t       testing.TB
	relay   *Relay
	address string // where the program connects instead of the name
	port    int    // the port that the program means
	secure  bool

	mu       sync.Mutex
	refusals []string
	dials    int
	running  sync.WaitGroup
}

type setup struct {
	config Config
	server *httptest.Server // nil: unreachable
	dial   func(context.Context) (net.Conn, error)
	port   int
	secure bool
}

func newRig(t testing.TB, s setup) *rig {
	t.Helper()
	if s.server != nil {
		t.Cleanup(s.server.Close)
		if s.server.TLS != nil {
			s.config.Roots = x509.NewCertPool()
			s.config.Roots.AddCert(s.server.Certificate())
		}
		address := s.server.Listener.Addr().String()
		s.dial = func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	if s.port == 0 {
		s.port = 80
		if s.secure {
			s.port = 443
		}
	}
	relay, err := New(s.config)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{t: t, relay: relay, address: l.Addr().String(), port: s.port, secure: s.secure}
	ctx, cancel := context.WithCancel(context.Background())
	g.running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			route := Route{
				Name: host, Port: s.port, Client: conn, OnRefusal: g.refused,
				Dial: func(ctx context.Context) (net.Conn, error) {
					g.mu.Lock()
					g.dials++
					g.mu.Unlock()
					return s.dial(ctx)
				},
			}
			g.running.Go(func() {
				if s.secure {
					relay.ServeTLS(ctx, route)
				} else {
					relay.Serve(ctx, route)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		cancel()
		g.running.Wait()
	})
	return g
}

func (g *rig) refused(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refusals = append(g.refusals, reason)
}

func (g *rig) allRefusals() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.refusals...)
}

func (g *rig) dial() net.Conn {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.address)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { conn.Close() })
	return conn
}

func (g *rig) trust() *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(g.relay.Authority())
	return &tls.Config{RootCAs: pool, ServerName: host}
}

// client speaks HTTP/1.1 or 2 to the relay, and follows no redirects.
func (g *rig) client(major int) *http.Client {
	var p http.Protocols
	p.SetHTTP1(major == 1)
	p.SetHTTP2(major == 2 && g.secure)
	p.SetUnencryptedHTTP2(major == 2 && !g.secure)
	tr := &http.Transport{
		Protocols: &p,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", g.address)
		},
		TLSClientConfig: g.trust(), DisableCompression: true, ExpectContinueTimeout: time.Hour,
	}
	g.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (g *rig) url(path string) string {
	if g.secure {
		return "https://" + host + path
	}
	return "http://" + host + path
}

func (g *rig) request(method, path string, body io.Reader) *http.Request {
	g.t.Helper()
	r, err := http.NewRequest(method, g.url(path), body)
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

// send returns the response and its complete body.
func (g *rig) send(major int, r *http.Request) (*http.Response, string) {
	g.t.Helper()
	res, err := g.client(major).Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return res, string(b)
}

// protocols runs f with both HTTP versions that a program may speak.
func protocols(t *testing.T, f func(t *testing.T, major int)) {
	for _, major := range []int{1, 2} {
		t.Run("HTTP "+strconv.Itoa(major), func(t *testing.T) { f(t, major) })
	}
}

// clearServer serves HTTP/1.1, and HTTP/2 by prior knowledge.
func clearServer(h http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.DisableGeneralOptionsHandler = true
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	return s
}

// secureServer has a valid certificate for host, and offers HTTP/2 in ALPN if two.
func secureServer(t testing.TB, two bool, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	a, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := a.newCertificate(host)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = two
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{leaf}}
	s.StartTLS()
	return s
}

// leased is a secret that is bound to host until close.
type leased struct {
	Secret
	mu     sync.Mutex
	closed bool
}

func lease(change func(*Secret)) *leased {
	l := &leased{}
	l.Secret = Secret{
		Name: "API_KEY", Placeholder: placeholder,
		Value: func() string {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.closed {
				return ""
			}
			return value
		},
		Bound: func(name string, port int) bool { return name == host },
	}
	if change != nil {
		change(&l.Secret)
	}
	return l
}

func (l *leased) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

func (l *leased) config() Config {
	var patterns []string
	for _, v := range spellings(value) {
		patterns = append(patterns, v, mark)
	}
	return Config{
		Secrets: func() []Secret { return []Secret{l.Secret} },
		Redact: func(s string) string {
			if l.Value() == "" { // a closed lease returns nothing
				return s
			}
			return strings.NewReplacer(patterns...).Replace(s)
		},
		Redactor: func(w io.Writer) io.WriteCloser { return &filter{w: w, patterns: patterns} },
	}
}

// spellings are the encodings in which an echo returns a value in these tests.
func spellings(v string) []string {
	all := []string{v, percentEncode(v), url.QueryEscape(v), url.PathEscape(v), escapeJSON(v), strings.Trim(strconv.Quote(v), `"`)}
	for _, user := range []string{"user:", "", "u:"} {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(user+v)))
	}
	return all
}

// filter holds back only the possible beginning of a pattern.
type filter struct {
	w        io.Writer
	patterns []string
	held     string
}

func (f *filter) Write(p []byte) (int, error) {
	text := strings.NewReplacer(f.patterns...).Replace(f.held + string(p))
	keep := 0
	for i := 0; i < len(f.patterns); i += 2 {
		for n := min(len(f.patterns[i])-1, len(text)); n > keep; n-- {
			if strings.HasSuffix(text, f.patterns[i][:n]) {
				keep = n
			}
		}
	}
	f.held = text[len(text)-keep:]
	if _, err := io.WriteString(f.w, text[:len(text)-keep]); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *filter) Close() error {
	_, err := io.WriteString(f.w, f.held)
	f.held = ""
	return err
}

// echo responds with the complete request, in the body, in headers and in a trailer.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Trailer", "X-Trailing")
	for name, values := range r.Header {
		if name != "Accept-Encoding" {
			w.Header()["X-Echo-"+name] = values
		}
	}
	w.Header().Set("X-Query", r.URL.RawQuery)
	w.Header().Set("X-"+strings.ReplaceAll(strings.TrimSpace(r.Header.Get("X-Name-It")), " ", "-"), "1")
	var all bytes.Buffer
	fmt.Fprintf(&all, "%s %s\nHost: %s\n", r.Method, r.RequestURI, r.Host)
	r.Header.Write(&all)
	fmt.Fprintf(&all, "\n%s", body)
	for _, piece := range bytes.SplitAfter(all.Bytes(), []byte("3")) { // splits the value into pieces
		w.Write(piece)
		http.NewResponseController(w).Flush()
	}
	w.Header().Set("X-Trailing", r.Header.Get("Authorization")+r.Header.Get("X-Key"))
}

// leaked reports whether text contains the value in any encoding.
func leaked(text string) bool {
	for _, v := range spellings(value) {
		if strings.Contains(text, v) {
			return true
		}
	}
	return false
}

// dump returns the complete response as text.
func dump(res *http.Response, body string) string {
	var b bytes.Buffer
	fmt.Fprintln(&b, res.Status)
	res.Header.Write(&b)
	b.WriteString(body)
	res.Trailer.Write(&b)
	return b.String()
}

// raw sends text and returns the responses to these requests, or to fewer if the connection ends.
func raw(conn net.Conn, text string, requests ...string) (answers []*http.Response, bodies []string) {
	go io.WriteString(conn, text)
	in := bufio.NewReader(conn)
	for _, method := range requests {
		res, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			break
		}
		b, err := io.ReadAll(res.Body)
		answers, bodies = append(answers, res), append(bodies, string(b))
		if err != nil {
			break
		}
	}
	return answers, bodies
}

var errUnreachable = errors.New("no route to it")
