package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

var quick = pace{first: 5 * time.Millisecond, longest: 40 * time.Millisecond, answer: time.Hour, grace: time.Hour,
	report: 20 * time.Millisecond}

// receiver stores the posts that it gets, and answers as the test wants.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	posts  []*http.Request
	bodies []string
}

func receive(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		r.posts, r.bodies = append(r.posts, q), append(r.bodies, string(body))
		n := len(r.posts)
		r.mu.Unlock()
		if answer != nil {
			answer(n, w, q)
		}
	}))
	t.Cleanup(func() { r.CloseClientConnections(); r.Close() })
	return r
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.posts)
}

func sender(t *testing.T, c Config, p pace) (*Sender, *event.Bus, *hosttest.Buffer) {
	t.Helper()
	logged := &hosttest.Buffer{}
	if c.Kinds == nil {
		c.Kinds = []string{event.All}
	}
	c.Bus, c.Log = event.NewBus(), slog.New(slog.NewTextHandler(logged, nil))
	s, err := start(c, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, c.Bus, logged
}

// TestSignature is the example that the specification's libraries are tested with.
func TestSignature(t *testing.T) {
	secret := []byte("whsec_" + "MfKQ9r8GKYqrTwj" + "UPD8ILPZIo2LaLaSw")
	k, err := newKey(func() ([]byte, error) { return secret, nil })
	if err != nil {
		t.Fatal(err)
	}
	got := sign(k.bytes, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if strings.Contains(string(secret), "whsec") {
		t.Error("the bytes were not overwritten")
	}
}

func TestPost(t *testing.T) {
	r := receive(t, nil)
	raw := strings.Repeat("k3y-", 8)
	s, bus, _ := sender(t, Config{URL: r.URL + "/x?y=z", Version: "1.2", Kinds: []string{event.EgressDenied},
		Secret: func() ([]byte, error) { return []byte(raw + "\n"), nil }}, quick)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.FixedZone("", 3600))
	began := time.Now().Unix()
	bus.Publish(event.Event{Name: event.VaultAccessed})
	bus.Publish(event.Event{Name: event.EgressDenied, Time: at, Run: "R", Namespace: "team", Data: map[string]any{"port": 443}})
	hosttest.Until(t, "it is posted", func() bool { return s.Stats().Sent == 1 })
	q, body := r.posts[0], r.bodies[0]
	if want := `{"type":"egress.denied","timestamp":"2026-01-02T02:04:05.006Z","data":{"seq":2,"run":"R","namespace":"team","details":{"port":443}}}`; body != want {
		t.Errorf("got %s\nwant %s", body, want)
	}
	h := q.Header
	stamp, err := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	mac := hmac.New(sha256.New, []byte(raw))
	io.WriteString(mac, h.Get("webhook-id")+"."+h.Get("webhook-timestamp")+"."+body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); h.Get("webhook-signature") != want || err != nil || stamp < began ||
		stamp > time.Now().Unix() {
		t.Errorf("signature %q, want %q; time %d", h.Get("webhook-signature"), want, stamp)
	}
	if q.Method != "POST" || q.RequestURI != "/x?y=z" || h.Get("Content-Type") != "application/json" ||
		h.Get("User-Agent") != "sandboxmcp/1.2" || !strings.HasPrefix(h.Get("webhook-id"), "evt_") {
		t.Errorf("got %s %s, %v", q.Method, q.RequestURI, h)
	}
}

// TestTriedAgain wants one id for all tries, and no more tries than make sense.
func TestTriedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(n int, w http.ResponseWriter, r *http.Request)
		posts  int
		sent   bool
		why    string
	}{
		"busy, then well": {func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 4 {
				w.WriteHeader([]int{0, 503, 429, 408}[n])
			}
		}, 4, true, ""},
		"hangs up": {func(n int, w http.ResponseWriter, _ *http.Request) {
			if n < 3 {
				panic(http.ErrAbortHandler)
			}
		}, 3, true, ""},
		"hangs": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n < 2 {
				<-r.Context().Done()
			}
		}, 0, true, ""}, // how many is the machine's speed
		"always busy": {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, tries, false, "500 Internal"},
		"asks to wait": {func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "99999999999999999")
			w.WriteHeader(503)
		}, tries, false, "503"},
		"no":           {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }, 1, false, "400 Bad Request"},
		"unauthorized": {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, 1, false, "401"},
		"long head": {func(_ int, w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, tries, false,
			"exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			r := receive(t, tt.answer)
			p := quick
			if tt.posts == 0 {
				p.answer = time.Second
			}
			s, bus, logged := sender(t, Config{URL: r.URL}, p)
			bus.Publish(event.Event{Name: event.EgressDenied})
			hosttest.Until(t, "it has come to an end", func() bool { st := s.Stats(); return st.Sent+st.Dropped == 1 })
			if st := s.Stats(); (st.Sent == 1) != tt.sent || tt.posts > 0 && r.count() != tt.posts || r.count() < 2 && tt.posts == 0 {
				t.Errorf("%+v after %d posts, want %d", st, r.count(), tt.posts)
			}
			for _, q := range r.posts {
				if q.Header.Get("webhook-id") != r.posts[0].Header.Get("webhook-id") || q.Header.Get("webhook-signature") != "" {
					t.Errorf("headers %v", q.Header)
				}
			}
			if s.Close(); !tt.sent && !strings.Contains(logged.String(), tt.why) || tt.sent && logged.String() != "" {
				t.Errorf("the log has %q, want %q", logged.String(), tt.why)
			}
		})
	}
}

// TestFlood has an answer without an end: it is not read to it.
func TestFlood(t *testing.T) {
	r := receive(t, func(_ int, w http.ResponseWriter, q *http.Request) {
		for q.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	})
	s, bus, _ := sender(t, Config{URL: r.URL}, pace{first: time.Second, longest: time.Second, answer: time.Minute, grace: time.Second,
		report: time.Minute})
	bus.Publish(event.Event{Name: event.EgressDenied})
	hosttest.Until(t, "the post has ended", func() bool { return s.Stats().Sent == 1 })
}

// TestRedirects are followed nowhere: neither the body nor a signature reaches another address.
func TestRedirects(t *testing.T) {
	other := receive(t, nil)
	for _, code := range []int{301, 302, 303, 307, 308} {
		r := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", other.URL)
			w.WriteHeader(code)
		})
		s, bus, logged := sender(t, Config{URL: r.URL}, quick)
		bus.Publish(event.Event{Name: event.EgressDenied})
		hosttest.Until(t, "it is lost", func() bool { return s.Stats().Dropped == 1 })
		if s.Close(); other.count() != 0 || r.count() != 1 || !strings.Contains(logged.String(), "redirects are not followed") {
			t.Errorf("%d: %d and %d posts, %s", code, r.count(), other.count(), logged)
		}
	}
}

func TestGone(t *testing.T) {
	r := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(410) })
	s, bus, logged := sender(t, Config{URL: r.URL}, quick)
	bus.Publish(event.Event{Name: event.EgressDenied})
	hosttest.Until(t, "it is lost", func() bool { return s.Stats().Dropped == 1 })
	for range 10 {
		bus.Publish(event.Event{Name: event.EgressDenied})
	}
	hosttest.Until(t, "all are lost", func() bool { return s.Stats().Dropped == 11 })
	if r.count() != 1 || strings.Count(logged.String(), "level=ERROR") != 1 {
		t.Errorf("%d posts after the receiver wanted no more: %s", r.count(), logged)
	}
}

// TestCertificate has a server that nobody vouches for.
func TestCertificate(t *testing.T) {
	tls := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer tls.Close()
	roots := x509.NewCertPool()
	for _, trusted := range []bool{false, true} {
		c := Config{URL: tls.URL, Roots: roots}
		if trusted {
			roots.AddCert(tls.Certificate())
		}
		s, bus, logged := sender(t, c, quick)
		bus.Publish(event.Event{Name: event.EgressDenied})
		hosttest.Until(t, "it has come to an end", func() bool { st := s.Stats(); return st.Sent+st.Dropped == 1 })
		if s.Close(); (s.Stats().Sent == 1) != trusted || !trusted && !strings.Contains(logged.String(), "certificate") {
			t.Errorf("trusted %v: %+v, %s", trusted, s.Stats(), logged)
		}
	}
}

// TestClose delivers to a receiver that answers, and does not wait for one that hangs.
func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	good := receive(t, nil)
	s, bus, _ := sender(t, Config{URL: good.URL}, quick)
	for range 200 {
		bus.Publish(event.Event{Name: event.EgressDenied})
	}
	if s.Close(); s.Stats().Sent != 200 {
		t.Errorf("what waited was not posted: %+v", s.Stats())
	}
	s.Close()
	stuck := receive(t, func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s, bus, logged := sender(t, Config{URL: stuck.URL}, pace{first: time.Hour, longest: time.Hour, answer: time.Hour,
		grace: 100 * time.Millisecond, report: time.Hour})
	for range 200 {
		bus.Publish(event.Event{Name: event.EgressDenied})
	}
	hosttest.Until(t, "posts are under way", func() bool { return stuck.count() == event.AtOnce })
	if s.Close(); s.Stats().Dropped != 200 || !strings.Contains(logged.String(), "events=200") {
		t.Errorf("%+v, %s", s.Stats(), logged)
	}
	good.CloseClientConnections()
	stuck.CloseClientConnections()
	good.Close()
	stuck.Close()
	hosttest.Until(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}

// TestDeadReceiver publishes the events of 10,000 runs. Nothing waits, and memory stays bounded.
func TestDeadReceiver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // nobody is there
	s, bus, logged := sender(t, Config{URL: "http://" + l.Addr().String()}, usual)
	var m0, m1 runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m0)
	const n = 50_000
	for range n {
		bus.Publish(event.Event{Name: event.ExecutionCompleted, Data: map[string]any{"name": strings.Repeat("x", 1000)}})
	}
	runtime.GC()
	runtime.ReadMemStats(&m1)
	grown := int64(m1.HeapAlloc) - int64(m0.HeapAlloc)
	t.Logf("%d KiB more on the heap, %+v", grown>>10, s.Stats())
	if grown > 16<<20 {
		t.Errorf("%d events took %d KiB", n, grown>>10)
	}
	if s.Close(); s.Stats().Dropped != n {
		t.Errorf("%+v, want %d dropped", s.Stats(), n)
	}
	if !strings.Contains(logged.String(), "connection refused") {
		t.Errorf("the log has %s", logged)
	}
}

func TestStartRefuses(t *testing.T) {
	token := "tok" + "en-in-an-address"
	secret := func(s string) func() ([]byte, error) { return func() ([]byte, error) { return []byte(s), nil } }
	for name, tt := range map[string]struct {
		c    Config
		want string
	}{
		"no address":     {Config{URL: "hook.example.com/" + token}, "is not a URL like"},
		"another scheme": {Config{URL: "ftp://hook.example.com/" + token}, "is not a URL like"},
		"a password":     {Config{URL: "https://me:" + token + "@hook.example.com/"}, "is not a URL like"},
		"no kinds":       {Config{URL: "https://hook.example.com", Kinds: []string{}}, "no kinds of events"},
		"kind":           {Config{URL: "https://hook.example.com", Kinds: []string{"egress.deny"}}, `did you mean "egress.denied"`},
		"short secret": {Config{URL: "https://hook.example.com", Kinds: []string{event.All}, Secret: secret(token)},
			"at least 24 are required"},
		"no base64": {Config{URL: "https://hook.example.com", Kinds: []string{event.All}, Secret: secret("whsec_" + token + "!")},
			"not base64"},
		"no secret at all": {Config{URL: "https://hook.example.com", Kinds: []string{event.All}, Secret: func() ([]byte, error) {
			return nil, errors.New("the vault is locked")
		}}, "the vault is locked"},
	} {
		tt.c.Bus = event.NewBus()
		s, err := Start(tt.c)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}

// TestNewSecret is used without a restart, and the old one where there is no new one.
func TestNewSecret(t *testing.T) {
	next, failure := strings.Repeat("a", 32), error(nil)
	k, err := newKey(func() ([]byte, error) { return []byte(next), failure })
	if err != nil {
		t.Fatal(err)
	}
	next = strings.Repeat("b", 32)
	for i, want := range []string{"a", "b", "b"} {
		if i > 0 {
			k.read = k.read.Add(-keyAge)
		}
		if i == 2 {
			failure = errors.New("locked")
		}
		if got, err := k.current(); string(got[0]) != want || (err != nil) != (i == 2) {
			t.Errorf("step %d: got %.1s, %v, want %s", i, got, err, want)
		}
	}
}

// FuzzKey reads secrets as people may store them.
func FuzzKey(f *testing.F) {
	f.Add([]byte("whsec_"))
	f.Add([]byte("x\n"))
	f.Fuzz(func(t *testing.T, secret []byte) {
		text := string(bytes.Clone(secret))
		k, err := newKey(func() ([]byte, error) { return secret, nil })
		if err == nil && len(k.bytes) < leastKey {
			t.Errorf("%q: a key of %d bytes", text, len(k.bytes))
		}
		if err != nil && len(text) > 12 && strings.Contains(err.Error(), text) {
			t.Errorf("the error quotes it: %v", err)
		}
	})
}

func TestBodyIsJSON(t *testing.T) {
	r := receive(t, nil)
	s, bus, _ := sender(t, Config{URL: r.URL}, quick)
	bus.Publish(event.Event{Name: event.EgressDenied, Data: map[string]any{"reason": "\x00\u2028\xff<>", "list": []string{"a"}}})
	// a bug of ours must not be more than a loss of that
	bus.Publish(event.Event{Name: event.EgressDenied, Data: map[string]any{"no": func() {}}})
	hosttest.Until(t, "both are posted", func() bool { return s.Stats() == Stats{Sent: 2} })
	for _, body := range r.bodies {
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Error(err)
		}
	}
}
