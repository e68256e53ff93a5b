package podman

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// cutter is a proxy in front of a service, which closes connections after it has forwarded a request.
type cutter struct {
	mu    sync.Mutex
	cut   *regexp.Regexp // matches "METHOD path"
	times int
	seen  []string // the matches
}

// engineBehind returns an engine that reaches another engine's service through a cutter.
func engineBehind(t *testing.T, e *Engine) (*Engine, *cutter) {
	t.Helper()
	c := &cutter{}
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	real := e.conn.endpoint.path()
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
	engine := New(Config{Host: "unix://" + socket, Dir: t.TempDir()}).(*Engine)
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

func (c *cutter) cutNext(times int, pattern string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut, c.times, c.seen = regexp.MustCompile(pattern), times, nil
}

func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// TestHangUps loses responses: harmless requests are sent again once, and no container is created or started twice.
func TestHangUps(t *testing.T) {
	real := testEngine(t)
	id := withImage(t, real)
	e, cut := engineBehind(t, real)
	if _, err := e.Info(t.Context()); err != nil {
		t.Fatal(err)
	}

	cut.cutNext(1, "^GET .*/images/")
	if _, err := e.Image(t.Context(), id); err != nil || cut.count() != 2 {
		t.Errorf("a question: %v, asked %d times", err, cut.count())
	}
	cut.cutNext(9, "^GET .*/images/")
	if _, err := e.Image(t.Context(), id); err == nil || cut.count() > 4 { // net/http also retries on a connection that was used before
		t.Errorf("a question that is never answered: %v, asked %d times", err, cut.count())
	}

	cut.cutNext(1, "^POST .*/containers/create")
	lost := basicContainer(id, "exit", "4")
	lost.Name = "lost"
	if _, err := e.Create(t.Context(), lost); err == nil || cut.count() != 1 {
		t.Errorf("made: %v, asked %d times", err, cut.count())
	}
	if err := e.Remove(t.Context(), lost.Name); err != nil {
		t.Error(err)
	}
	if list, err := e.List(t.Context(), container.LabelInstance); err != nil || len(list) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}

	c := create(t, e, basicContainer(id, "exit", "4"))
	cut.cutNext(1, "^POST .*/start")
	if err := e.Start(t.Context(), c); err == nil || cut.count() != 1 {
		t.Errorf("a start: %v, asked %d times", err, cut.count())
	}
	if err := e.Remove(t.Context(), c); err != nil {
		t.Error(err)
	}

	c = create(t, e, basicContainer(id, "sleep"))
	start(t, e, c)
	cut.cutNext(1, "^DELETE ")
	if err := e.Remove(t.Context(), c); err != nil {
		t.Errorf("a removal: %v", err)
	}
	waitRemoved(t, e, c)
}

// TestQuiet checks that Podman gets no slow request: not at the end of a container whose process is visible, and
// none to kill a dead container.
func TestQuiet(t *testing.T) {
	real := testEngine(t)
	id := withImage(t, real)
	e, asked := engineBehind(t, real)
	c := create(t, e, basicContainer(id, "sleep"))
	asked.cutNext(0, "^POST .*/wait$")
	exits := waitFor(t, e, c)
	start(t, e, c)
	waitWatched(t, e, c)
	if _, err := e.Info(t.Context()); err != nil || asked.count() > 0 {
		t.Errorf("it is asked to wait for a container that runs: %v, %q", err, asked.seen)
	}
	asked.cutNext(0, "^(DELETE|GET) .*/containers/"+c)
	if err := e.Remove(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	<-exits
	looked, removed := "GET "+inspectPath+c+"/json", "DELETE "+inspectPath+c
	if first, last := slices.Index(asked.seen, looked), slices.Index(asked.seen, removed); first < 0 || first > last {
		t.Errorf("it is asked to remove what it takes for alive: %q", asked.seen)
	}
}

const inspectPath = "/v" + dockerAPI + "/containers/"

// TestStartsAgain: requests that can't have arrived are sent again, also those that must not be executed twice.
func TestStartsAgain(t *testing.T) {
	real := testEngine(t)
	id := withImage(t, real)
	e, _ := engineBehind(t, real)
	if _, err := e.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	socket := e.conn.endpoint.path()
	if err := os.Rename(socket, socket+".away"); err != nil {
		t.Fatal(err)
	}
	e.conn.HTTP.CloseIdleConnections()
	time.AfterFunc(20*time.Millisecond, func() { os.Rename(socket+".away", socket) })
	c, err := e.Create(t.Context(), basicContainer(id, "exit", "4"))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Remove(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// TestSavedInfo queries a service's description once, and again when it may have changed.
func TestSavedInfo(t *testing.T) {
	behindIt, asked := engineBehind(t, testEngine(t))
	dir := t.TempDir()
	conf := filepath.Join(dir, "containers.conf")
	socket := strings.TrimPrefix(behindIt.config.Host, "unix://")
	environ := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "CONTAINERS_CONF=" + conf}
	var first container.Info
	for _, test := range []struct {
		name   string
		before func() error
		asked  int
	}{
		{"the first", nil, 1},
		{"the second", nil, 0},
		{"another configuration", func() error { return os.WriteFile(conf, []byte("[engine]\n"), 0o600) }, 1},
		{"the same again", nil, 0},
		{"another socket", func() error { return os.Chtimes(socket, time.Time{}, time.Unix(1, 0)) }, 1},
		{"another variable", func() error { environ = append(environ, "XDG_CONFIG_HOME="+dir); return nil }, 1},
		{"what it said can't be read", func() error { return os.WriteFile(filepath.Join(dir, savedInfoName), []byte("{"), 0o600) }, 1},
		{"what it said long ago", func() error { return ageFile(filepath.Join(dir, savedInfoName)) }, 1},
		{"a container could not be made", func() error {
			e := New(Config{Host: behindIt.config.Host, Environ: environ, Dir: dir})
			defer e.Close()
			if _, err := e.Create(t.Context(), basicContainer("nowhere", "sleep")); err == nil {
				return errors.New("it could")
			}
			return nil
		}, 1},
	} {
		if test.before != nil {
			if err := test.before(); err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
		}
		asked.cutNext(0, "^GET .*/info$")
		e := New(Config{Host: behindIt.config.Host, Environ: environ, Dir: dir})
		got, err := e.Info(t.Context())
		e.Close()
		if first.Version == "" {
			first = got
		}
		if err != nil || !reflect.DeepEqual(got, first) || !got.Local || asked.count() != test.asked {
			t.Errorf("%s: got %+v, %v, want %+v; asked %d times, want %d", test.name, got, err, first, asked.count(), test.asked)
		}
	}
}

// ageFile sets a file's time to the day before yesterday.
func ageFile(name string) error {
	var k savedInfo
	data, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err != nil {
		return err
	}
	k.At = k.At.Add(-48 * time.Hour)
	if data, err = json.Marshal(k); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o600)
}
