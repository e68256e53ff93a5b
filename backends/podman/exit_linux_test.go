package podman

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestEnds distinguishes the ways in which containers end.
func TestEnds(t *testing.T) {
	e := testEngine(t)
	id := withImage(t, e)
	for _, test := range []struct {
		name  string
		args  []string
		then  func(t *testing.T, c string) // called once it runs and Wait watches it; nil if one byte makes it continue
		want  container.Exit
		loose bool // the end may come before or after Wait's first look
	}{
		{name: "ok", args: []string{"wait", "exit", "0"}},
		{name: "exit", args: []string{"wait", "exit", "3"}, want: container.Exit{Code: 3}},
		{name: "oom of PID 1", args: []string{"wait", "eat"}, want: container.Exit{Code: 137, OOM: true}},
		{name: "oom of a child", args: []string{"wait", "feed"}, want: container.Exit{Code: 7, OOM: true}},
		{name: "killed", args: []string{"sleep"}, want: container.Exit{Code: 137}, then: func(t *testing.T, c string) { kill(t, e, c) }},
		{name: "removed by somebody", loose: true, args: []string{"sleep"}, want: container.Exit{Code: 137, Removed: true},
			then: func(t *testing.T, c string) {
				sendRequest(t, e, http.MethodDelete, "/containers/"+c, url.Values{"force": {"true"}, "timeout": {"0"}})
			}},
		{name: "removed by us", loose: true, args: []string{"sleep"}, want: container.Exit{Code: 137, Removed: true},
			then: func(t *testing.T, c string) {
				if err := e.Remove(t.Context(), c); err != nil {
					t.Error(err)
				}
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := create(t, e, basicContainer(id, test.args...))
			conn, err := e.Attach(t.Context(), c, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			exits := waitFor(t, e, c)
			start(t, e, c)
			waitWatched(t, e, c)
			if test.then != nil {
				test.then(t, c)
			} else {
				conn.Write([]byte("."))
			}
			got := <-exits
			if test.loose {
				got.Removed = test.want.Removed
			}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			waitRemoved(t, e, c)
		})
	}
}

// waitFor starts to wait for a container before the container starts.
func waitFor(t *testing.T, e *Engine, c string) <-chan container.Exit {
	t.Helper()
	exits := make(chan container.Exit, 1)
	go func() {
		defer close(exits)
		exit, err := e.Wait(t.Context(), c)
		if err != nil {
			t.Error(err)
		}
		exits <- exit
	}()
	return exits
}

// waitWatched waits until Wait watches a container's first process, so that it misses nothing of its end.
func waitWatched(t *testing.T, e *Engine, c string) {
	t.Helper()
	is, err := e.Inspect(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	hosttest.Until(t, "the container's first process is watched", func() bool {
		files, _ := filepath.Glob("/proc/self/fdinfo/*")
		return slices.ContainsFunc(files, func(file string) bool {
			text, _ := os.ReadFile(file)
			return strings.Contains(string(text), fmt.Sprintf("Pid:\t%d\n", is.Container.State.Pid))
		})
	})
}

// waitRemoved waits until Podman has removed the container by itself.
func waitRemoved(t *testing.T, e *Engine, c string) {
	t.Helper()
	hosttest.Until(t, "Podman has removed the container", func() bool { _, err := e.Inspect(t.Context(), c); return errdefs.IsNotFound(err) })
}

// TestNeverStarted waits for containers that are removed before they run.
func TestNeverStarted(t *testing.T) {
	e := testEngine(t)
	id := withImage(t, e)
	c := create(t, e, basicContainer(id, "sleep"))
	exits := waitFor(t, e, c)
	if err := e.Remove(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got, want := <-exits, (container.Exit{Code: -1, Removed: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := e.Remove(t.Context(), c); err != nil {
		t.Errorf("remove what is not there: %v", err)
	}
}

// TestLate waits for a container that is already gone: only Podman's events still know it.
func TestLate(t *testing.T) {
	e := testEngine(t)
	c := create(t, e, basicContainer(withImage(t, e), "exit", "5"))
	start(t, e, c)
	waitRemoved(t, e, c)
	got, err := e.Wait(t.Context(), c)
	if want := (container.Exit{Code: 5, Removed: true}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// TestServiceRestarts ends the service during a Wait for a running container.
func TestServiceRestarts(t *testing.T) {
	e := engineIn(t, newStore(t))
	c := create(t, e, basicContainer(build(t, e), "sleep"))
	exits := waitFor(t, e, c)
	start(t, e, c)
	waitWatched(t, e, c)
	e.conn.service.process.Kill()
	<-e.conn.service.ended
	list, err := e.List(t.Context(), container.LabelInstance+"=test")
	if err != nil || len(list) != 1 || list[0].ID != c {
		t.Fatalf("got %+v, %v", list, err)
	}
	kill(t, e, c)
	if got, want := <-exits, (container.Exit{Code: 137}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestAttach sends and receives, and ends the input.
func TestAttach(t *testing.T) {
	e := testEngine(t)
	c := create(t, e, basicContainer(withImage(t, e), "cat"))
	var stderr bytes.Buffer
	conn, err := e.Attach(t.Context(), c, &stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	start(t, e, c)
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go conn.Write(big)
	back := make([]byte, len(big))
	if _, err := io.ReadFull(conn, back); err != nil || !bytes.Equal(back, big) {
		t.Fatalf("what came back differs: %v", err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	remaining, err := io.ReadAll(conn)
	if err != nil || len(remaining) > 0 {
		t.Errorf("got %q, %v", remaining, err)
	}
	if got := stderr.String(); got != "input ended" {
		t.Errorf("standard error: %q", got)
	}
	if exit, err := e.Wait(t.Context(), c); err != nil || exit.Code != 0 {
		t.Errorf("got %+v, %v", exit, err)
	}
}

// TestHangUp closes the connection, as for a killed server: the container then ends, and is removed.
func TestHangUp(t *testing.T) {
	e := testEngine(t)
	c := create(t, e, basicContainer(withImage(t, e), "cat"))
	conn, err := e.Attach(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	start(t, e, c)
	conn.Write([]byte("."))
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	waitRemoved(t, e, c)
}

// TestUpdate changes the limits of a running container.
func TestUpdate(t *testing.T) {
	e := testEngine(t)
	c := basicContainer(withImage(t, e), "cat")
	id := create(t, e, c)
	start(t, e, id)
	if err := e.Update(t.Context(), id, container.Resources{Memory: 96 << 20}); err != nil {
		t.Fatal(err)
	}
	checkLimits(t, cgroup(t, e, id), "100663296", "50", "50000")
	if err := e.Update(t.Context(), id, container.Resources{Memory: 48 << 20, PIDs: 20, CPU: 0.25}); err != nil {
		t.Fatal(err)
	}
	checkLimits(t, cgroup(t, e, id), "50331648", "20", "25000")
}
