package podman

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// cutter stands between us and a service, and hangs up on requests that it has passed on.
type cutter struct {
	mu    sync.Mutex
	cut   *regexp.Regexp // of "METHOD path"
	times int
	seen  []string // what matched
}

// behind returns an engine that reaches another one's service through a cutter.
func behind(t *testing.T, e *Engine) (*Engine, *cutter) {
	t.Helper()
	c := &cutter{}
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	real := e.line.place.path()
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "d"})
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", real)
	}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.matches(r.Method + " " + r.URL.Path) {
			proxy.ServeHTTP(w, r)
			return
		}
		proxy.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	engine := New(Config{Host: "unix://" + socket}).(*Engine)
	t.Cleanup(func() { engine.Close() })
	return engine, c
}

func (c *cutter) matches(what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut == nil || !c.cut.MatchString(what) {
		return false
	}
	c.seen = append(c.seen, what)
	c.times--
	return c.times >= 0
}

func (c *cutter) next(times int, pattern string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut, c.times, c.seen = regexp.MustCompile(pattern), times, nil
}

func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// TestHangUps loses answers: what does no harm is asked again, once, a container is made once, and
// never started twice.
func TestHangUps(t *testing.T) {
	real := served(t)
	id := withImage(t, real)
	e, cut := behind(t, real)
	if _, err := e.Info(t.Context()); err != nil {
		t.Fatal(err)
	}

	cut.next(1, "^GET .*/images/")
	if _, err := e.Image(t.Context(), id); err != nil || cut.count() != 2 {
		t.Errorf("a question: %v, asked %d times", err, cut.count())
	}
	cut.next(9, "^GET .*/images/")
	if _, err := e.Image(t.Context(), id); err == nil || cut.count() > 4 { // net/http asks again, too, on a connection that was used before
		t.Errorf("a question that is never answered: %v, asked %d times", err, cut.count())
	}

	cut.next(1, "^POST .*/containers/create")
	c := create(t, e, plain(id, "exit", "4"))
	list, err := e.List(t.Context(), container.LabelInstance)
	if err != nil || len(list) != 1 || list[0].ID != c || cut.count() != 2 {
		t.Errorf("made: %+v, %v, asked %d times", list, err, cut.count())
	}

	cut.next(9, "^POST .*/start")
	exits := waitFor(t, e, c)
	if err := e.Start(t.Context(), c); err != nil || cut.count() != 1 {
		t.Errorf("a start: %v, asked %d times", err, cut.count())
	}
	if exit := <-exits; exit.Code != 4 {
		t.Errorf("got %+v", exit)
	}

	c = create(t, e, plain(id, "sleep"))
	start(t, e, c)
	cut.next(1, "^DELETE ")
	if err := e.Remove(t.Context(), c); err != nil {
		t.Errorf("a removal: %v", err)
	}
	gone(t, e, c)
}
