package docker

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// waitExit runs Wait in the background and returns a channel of its Exit.
func waitExit(t *testing.T, e *docker, id string) <-chan container.Exit {
	t.Helper()
	c := make(chan container.Exit, 1)
	go func() {
		x, err := e.Wait(t.Context(), id)
		if err != nil {
			x.Why = "error: " + err.Error()
		}
		c <- x
	}()
	return c
}

// heard counts the responses that have begun.
type heard struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (h heard) WriteHeader(code int)        { h.ResponseWriter.WriteHeader(code); h.n.Add(1) }
func (h heard) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// countListeners returns an engine, and a counter of its event streams that have begun.
func countListeners(t *testing.T) (e *docker, listening *atomic.Int64) {
	t.Helper()
	listening = new(atomic.Int64)
	return newFaultyProxy(t, func(w http.ResponseWriter, r *http.Request, pass http.Handler) bool {
		events := strings.HasSuffix(r.URL.Path, "/events")
		if events {
			pass.ServeHTTP(heard{w, listening}, r)
		}
		return events
	}), listening
}

func TestWait(t *testing.T) {
	e, listening := countListeners(t)
	l, err := e.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pid := func(id string) int {
		r, err := l.api.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Container.State.Pid
	}
	for _, c := range []struct {
		name  string
		args  []string
		do    func(id string) error
		want  container.Exit // Why is a substring of the reason
		never bool           // the container is not started
	}{
		{"code", []string{"exit", "7"}, nil, container.Exit{Code: 7}, false},
		{"success", []string{"exit", "0"}, nil, container.Exit{}, false},
		{"segmentation fault", []string{"segv"}, nil, container.Exit{Code: 139}, false},
		{"memory of a child", []string{"parent"}, nil, container.Exit{Code: 3, OOM: true}, false},
		{"memory of PID 1", []string{"eat"}, nil, container.Exit{Code: 137, OOM: true}, false},
		{"killed from the host", []string{"sleep"}, func(id string) error {
			return syscall.Kill(pid(id), syscall.SIGKILL)
		}, container.Exit{Code: 137, Why: "not through Docker"}, false},
		{"docker kill", []string{"sleep"}, func(id string) error {
			_, err := l.api.ContainerKill(t.Context(), id, client.ContainerKillOptions{Signal: "KILL"})
			return err
		}, container.Exit{Code: 137, Why: "signal 9 through Docker"}, false},
		{"docker rm -f", []string{"sleep"}, func(id string) error {
			_, err := l.api.ContainerRemove(t.Context(), id, client.ContainerRemoveOptions{Force: true})
			return err
		}, container.Exit{Code: 137, Why: "signal 9 through Docker"}, false},
		{"removed before it began", []string{"sleep"}, func(id string) error {
			_, err := l.api.ContainerRemove(t.Context(), id, client.ContainerRemoveOptions{Force: true})
			return err
		}, container.Exit{Removed: true, Why: "before it was started"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			listening.Store(0)
			id := create(t, e, plan(t, e, "guest:1", c.args...))
			before := waitExit(t, e, id)
			if !c.never {
				if err := e.Start(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			during := waitExit(t, e, id)
			hosttest.Until(t, "both hear Docker's events", func() bool { return listening.Load() >= 2 })
			if c.do != nil {
				if err := c.do(id); err != nil {
					t.Fatal(err)
				}
			}
			check := func(when string, got container.Exit) {
				t.Helper()
				same := got.Code == c.want.Code && got.OOM == c.want.OOM && got.Removed == c.want.Removed
				if !same || !strings.Contains(got.Why, c.want.Why) || c.want.Why == "" && got.Why != "" {
					t.Errorf("waiting %s: got %+v, want %+v", when, got, c.want)
				}
			}
			check("before the start", <-before)
			check("since the start", <-during)
			if err := e.Remove(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			check("after its removal", <-waitExit(t, e, id))
		})
	}
}

// TestWaitForNothing asks about a container whose events the engine no longer has: Wait reports only that it is
// gone.
func TestWaitForNothing(t *testing.T) {
	e := testEngine(t)
	if x := <-waitExit(t, e, strings.Repeat("ab", 32)); !x.Removed {
		t.Errorf("got %+v", x)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	e := testEngine(t)
	id := create(t, e, plan(t, e, "guest:1", "sleep"))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if x, err := e.Wait(ctx, id); err != context.DeadlineExceeded {
		t.Errorf("got %+v, %v", x, err)
	}
}
