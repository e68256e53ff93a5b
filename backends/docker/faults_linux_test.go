package docker

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
)

// newFaultyProxy starts a proxy in front of the real engine. fault may answer or cut a request and returns true if
// it did; pass forwards the request to the engine.
func newFaultyProxy(t *testing.T, fault func(w http.ResponseWriter, r *http.Request, pass http.Handler) bool) *docker {
	t.Helper()
	testEngine(t) // loads the images
	socket := strings.TrimPrefix(enginetest.Docker(t), "unix://")
	u, _ := url.Parse("http://docker")
	proxy := httputil.NewSingleHostReverseProxy(u)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	proxy.Transport, proxy.FlushInterval = transport, -1
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { cut(w) } // like an engine that is gone
	dir, err := os.MkdirTemp("/tmp", "between")                                           // socket paths must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fault(w, r, proxy) {
			proxy.ServeHTTP(w, r)
		}
	})}}
	s.Start()
	t.Cleanup(s.Close)
	return connected(t, "unix://"+l.Addr().String())
}

// cut closes a connection without an answer.
func cut(w http.ResponseWriter) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		c.Close()
	}
}

// faults are the ways in which the first request for a path fails, before or after the engine gets it.
var faults = map[string]func(w http.ResponseWriter, r *http.Request, pass http.Handler){
	"cut before the engine": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { cut(w) },
	"cut after the engine": func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		pass.ServeHTTP(httptest.NewRecorder(), r)
		cut(w)
	},
	"unavailable": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		http.Error(w, "starting", http.StatusServiceUnavailable)
	},
	"internal error": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		http.Error(w, "not now", http.StatusInternalServerError)
	},
}

// faultOnce applies a fault to the first request for a path.
func faultOnce(path *regexp.Regexp, f func(http.ResponseWriter, *http.Request, http.Handler)) (func(http.ResponseWriter, *http.Request,
	http.Handler) bool, *atomic.Int64) {
	var seen atomic.Int64
	return func(w http.ResponseWriter, r *http.Request, pass http.Handler) bool {
		if !path.MatchString(r.URL.Path) || seen.Add(1) > 1 {
			return false
		}
		f(w, r, pass)
		return true
	}, &seen
}

// TestCreateFails checks that the request to create a container is sent once, however it fails, and that removing
// its name removes all of it.
func TestCreateFails(t *testing.T) {
	t.Parallel()
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			fault, seen := faultOnce(regexp.MustCompile(`/containers/create$`), f)
			e := newFaultyProxy(t, fault)
			c := plan(t, e, "guest:1", "exit", "0")
			if id, err := e.Create(t.Context(), c); err == nil || seen.Load() != 1 {
				t.Errorf("after %d requests: got %q, %v", seen.Load(), id, err)
			}
			if err := e.Remove(t.Context(), c.Name); err != nil {
				t.Error(err)
			}
			if list, err := e.List(t.Context(), "of="+t.Name()); err != nil || len(list) != 0 {
				t.Errorf("got %+v, %v", list, err)
			}
		})
	}
}

// TestStartFails checks that the request to start a container is sent once, however it fails.
func TestStartFails(t *testing.T) {
	t.Parallel()
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			fault, seen := faultOnce(regexp.MustCompile(`/start$`), f)
			e := newFaultyProxy(t, fault)
			id := create(t, e, plan(t, e, "guest:1", "exit", "0"))
			if err := e.Start(t.Context(), id); err == nil || seen.Load() != 1 {
				t.Errorf("after %d requests: got %v", seen.Load(), err)
			}
			if err := e.Remove(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWaitThroughCuts checks that Wait reconnects after a cut and misses no event in between.
func TestWaitThroughCuts(t *testing.T) {
	fault, seen := faultOnce(regexp.MustCompile(`/events$`), faults["cut before the engine"])
	e := newFaultyProxy(t, fault)
	id := create(t, e, plan(t, e, "guest:1", "exit", "7"))
	done := waitExit(t, e, id)
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if x := <-done; x.Code != 7 || x.Removed || seen.Load() < 2 {
		t.Errorf("after %d requests: got %+v", seen.Load(), x)
	}
}

func TestRemoveRetries(t *testing.T) {
	t.Parallel()
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			fault, _ := faultOnce(regexp.MustCompile(`/containers/[0-9a-f]{64}$`), f)
			e := newFaultyProxy(t, fault)
			id := create(t, e, plan(t, e, "guest:1", "exit", "0"))
			if err := e.Remove(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if list, err := e.List(t.Context(), "of="+t.Name()); err != nil || len(list) > 0 {
				t.Errorf("got %+v, %v", list, err)
			}
		})
	}
}

// TestInfoSeesNot checks that an engine is not local if it sees none of our files, or claims to see every path.
func TestInfoSeesNot(t *testing.T) {
	for name, status := range map[string]int{"sees nothing": http.StatusBadRequest, "sees everything": http.StatusNotFound} {
		e := newFaultyProxy(t, func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			create := strings.HasSuffix(r.URL.Path, "/containers/create")
			if create {
				http.Error(w, name, status)
			}
			return create
		})
		if i, err := e.Info(t.Context()); err != nil || i.Local {
			t.Errorf("%s: got %+v, %v", name, i, err)
		}
	}
}
