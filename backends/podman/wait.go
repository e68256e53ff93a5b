package podman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// serviceTimeout is how long a service may be away while a Wait is under way: containers live on.
const serviceTimeout = 30 * time.Second

// Wait implements [container.Engine]. When a container has ended, Podman removes it within about a tenth of a second,
// and with it forgets whether memory ran out. So its first process is watched where that can be seen from here, and the
// container is inspected as soon as it has ended. The code is -1 if it is not known.
func (e *Engine) Wait(ctx context.Context, id string) (container.Exit, error) {
	answered := time.Now()
	var waiter *exitWaiter
	defer func() { waiter.stop() }()
	for {
		var is inspected
		err := e.call(ctx, inspect(id), &is)
		exit, ended := is.State.ended()
		switch {
		case err == nil && ended:
			exit.OOM = exit.OOM || waiter.oomKilled()
			return exit, nil
		case isGone(err):
			return e.removedExit(ctx, id, waiter)
		case ctx.Err() != nil:
			return container.Exit{}, ctx.Err()
		case errors.Is(err, errClosed), err != nil && time.Since(answered) > serviceTimeout:
			return container.Exit{}, fmt.Errorf("wait for a container: %w", err)
		case err != nil:
			engine.Pause(ctx, 200*time.Millisecond)
			continue
		case !is.State.begun():
			engine.Pause(ctx, 50*time.Millisecond)
		case waiter == nil:
			waiter = e.newExitWaiter(ctx, id, is.State.PID)
			waiter.wait(ctx)
		default:
			waiter.wait(ctx)
		}
		answered = time.Now()
	}
}

// exitWaiter waits for the end of a running container in two ways: by its first process, and by asking Podman.
type exitWaiter struct {
	mayHaveEnded chan struct{} // closed when the container may have ended
	oom          bool          // memory ran out in it; may be read when mayHaveEnded is closed
	code         chan int      // its exit code, from Podman; closed without one if Podman does not know
	interval     time.Duration // between two inspections, once mayHaveEnded is closed
	cancel       func()
	running      sync.WaitGroup
}

// newExitWaiter starts both.
func (e *Engine) newExitWaiter(ctx context.Context, id string, pid int) *exitWaiter {
	ctx, cancel := context.WithCancel(ctx)
	w := &exitWaiter{mayHaveEnded: make(chan struct{}), code: make(chan int, 1), interval: 2 * time.Millisecond, cancel: cancel}
	notify := sync.OnceFunc(func() { close(w.mayHaveEnded) })
	kills := oomKills(pid)
	w.running.Go(func() {
		defer notify()
		defer close(w.code)
		// A service that is asked before looks again and again, and can't end meanwhile.
		if awaitExit(ctx, pid) {
			w.oom = kills() > 0
			notify()
		}
		for ctx.Err() == nil {
			code, err := e.waitExit(ctx, id)
			if err == nil {
				w.code <- code
				return
			}
			if f := (*failure)(nil); errors.As(err, &f) {
				return // it answers, and does not know
			}
			engine.Pause(ctx, 200*time.Millisecond)
		}
	})
	return w
}

// wait returns when it may have ended, and from then on ever less often.
func (end *exitWaiter) wait(ctx context.Context) {
	select {
	case <-end.mayHaveEnded:
		engine.Pause(ctx, end.interval)
		end.interval = min(2*end.interval, 250*time.Millisecond)
	case <-ctx.Done():
	}
}

// oomKilled reports whether memory ran out. Podman before 5.0 does not know, though it has a field for it.
func (end *exitWaiter) oomKilled() bool {
	if end == nil {
		return false
	}
	select {
	case <-end.mayHaveEnded:
		return end.oom
	default:
		return false
	}
}

func (end *exitWaiter) stop() {
	if end != nil {
		end.cancel()
		end.running.Wait()
	}
}

// waitExit asks Podman for the exit code of a container that was started, and returns when it has ended.
func (e *Engine) waitExit(ctx context.Context, id string) (int, error) {
	res, err := e.send(ctx, request{
		method: http.MethodPost, path: "/containers/" + url.PathEscape(id) + "/wait", again: true,
		query: url.Values{"condition": {"exited"}, "interval": {"40ms"}},
	})
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 100))
	if err != nil {
		return 0, err
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || code < 0 {
		return 0, &failure{message: fmt.Sprintf("podman says the exit code is %q", data)}
	}
	return code, nil
}

// removedExit finds the exit of a container that is gone: from the waiter, else from Podman's log of events, which not
// every Podman keeps.
func (e *Engine) removedExit(ctx context.Context, id string, w *exitWaiter) (container.Exit, error) {
	exit := container.Exit{Code: -1, Removed: true}
	if w != nil {
		select {
		case code, ok := <-w.code:
			if ok {
				exit.Code, exit.OOM = code, w.oomKilled()
				return exit, nil
			}
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return exit, ctx.Err()
		}
	}
	res, err := e.send(ctx, request{method: http.MethodGet, path: "/events", again: true, query: url.Values{
		"stream": {"false"}, "since": {strconv.FormatInt(e.since.Add(-time.Hour).Unix(), 10)},
		"filters": {fmt.Sprintf(`{"container":[%q],"event":["died"]}`, id)},
	}})
	if err != nil {
		return exit, nil
	}
	defer res.Body.Close()
	for d := json.NewDecoder(res.Body); ; {
		var event struct {
			Actor struct {
				ID         string
				Attributes map[string]string
			}
		}
		if d.Decode(&event) != nil {
			return exit, nil
		}
		if code, err := strconv.Atoi(event.Actor.Attributes["containerExitCode"]); err == nil && event.Actor.ID == id {
			exit.Code = code
		}
	}
}

// inspected is the part of a container's description that we use.
type inspected struct {
	State  state
	Mounts []struct{ Destination string }

	HostConfig struct {
		Devices []struct{ PathInContainer string }
	}
}

type state struct {
	Status    string
	PID       int
	ExitCode  int
	OOMKilled bool
	Error     string
}

// begun reports whether its program was ever started.
func (s state) begun() bool {
	return !slices.Contains([]string{"created", "configured", "initialized"}, s.Status)
}

// ended reports whether its program has ended, and its exit.
func (s state) ended() (container.Exit, bool) {
	switch s.Status {
	case "stopped", "exited", "removing":
		return container.Exit{Code: s.ExitCode, OOM: s.OOMKilled, Why: engine.Plain(s.Error)}, true
	}
	return container.Exit{}, false
}

func inspect(id string) request {
	return request{method: http.MethodGet, path: "/containers/" + url.PathEscape(id) + "/json", again: true}
}
