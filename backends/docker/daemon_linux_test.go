package docker

import (
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// What a daemon does to containers when it is asked to end, it tells.
func TestDaemonStops(t *testing.T) {
	e := real(t)
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
	if !refused(err, "not running", "docker") {
		t.Errorf("with no daemon: got %v", err)
	}
	list, err := e.List(t.Context(), "of="+t.Name())
	if err != nil || len(list) != 0 {
		t.Errorf("when it is back: got %+v, %v", list, err)
	}
}

// A daemon that was killed can't tell, and its containers live until it is back, which ends them.
func TestDaemonKilled(t *testing.T) {
	e, listening := listened(t)
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
