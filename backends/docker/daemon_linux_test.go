package docker

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestDaemonStops checks that a stopping daemon reports how its containers ended.
func TestDaemonStops(t *testing.T) {
	e := testEngine(t)
	id := create(t, e, plan(t, e, "guest:1", "sleep"))
	done := waitExit(t, e, id)
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	enginetest.Stop(t, enginetest.Docker(t))
	x := <-done
	_, err := e.List(t.Context(), "x")
	enginetest.Restart(t, enginetest.Docker(t))
	if !strings.Contains(x.Why, "a daemon that stops") {
		t.Errorf("got %+v", x)
	}
	if !isRefusal(err, "not running", "docker") {
		t.Errorf("with no daemon: got %v", err)
	}
	list, err := e.List(t.Context(), "of="+t.Name())
	if err != nil || len(list) != 0 {
		t.Errorf("when it is back: got %+v, %v", list, err)
	}
}

// TestDaemonKilled checks that the containers of a killed daemon live until it is back and ends them.
func TestDaemonKilled(t *testing.T) {
	e, listening := countListeners(t)
	id := create(t, e, plan(t, e, "guest:1", "sleep"))
	done := waitExit(t, e, id)
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	hosttest.Until(t, "Wait hears Docker's events", func() bool { return listening.Load() > 0 })
	enginetest.Restart(t, enginetest.Docker(t))
	if x := <-done; !strings.Contains(x.Why, "restarted") {
		t.Errorf("got %+v", x)
	}
	list, err := e.List(t.Context(), "of="+t.Name())
	if err != nil || len(list) != 0 {
		t.Errorf("afterwards: got %+v, %v", list, err)
	}
}

// TestDaemonKilledAttached checks that a run fails if the daemon's death cuts its attached streams, whatever the
// program had written by then.
func TestDaemonKilledAttached(t *testing.T) {
	url := enginetest.Docker(t)
	b := container.New(New(Config{Host: url}), container.Config{Images: enginetest.Images(t, url), Pull: "never",
		StateDir: filepath.Join(t.TempDir(), "state"), Binary: enginetest.InitBinary(t), Attach: true})
	defer b.Close()
	program := backends.Command{Args: []string{"bash", "-c", "echo all is well; while :; do sleep 0.1; done"}}
	s, err := b.Start(t.Context(), backends.Spec{ID: "cut", Language: "shell", Program: &program})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	written := make(chan struct{})
	go func() {
		<-written
		enginetest.Restart(t, url)
	}()
	r, err := s.Exec(t.Context(), program, backends.Streams{Stdout: firstWrite{sync.OnceFunc(func() { close(written) })}})
	if err == nil || r.Ended != "" {
		t.Errorf("got %+v, %v", r, err)
	}
	t.Log(err)
	if err := s.Files().Put("x", 0o644, strings.NewReader("x")); err == nil {
		t.Error("a file was put into a container that can't be reached")
	}
}

// firstWrite calls f at the first write.
type firstWrite struct{ f func() }

func (o firstWrite) Write(b []byte) (int, error) { o.f(); return len(b), nil }
