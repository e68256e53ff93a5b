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
	"time"

	"github.com/containerd/errdefs"
	docker "github.com/moby/moby/api/types/container"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// serviceTimeout bounds a service's absence during a Wait: containers live on.
const serviceTimeout = 30 * time.Second

// Wait implements [container.Engine]. Within about a tenth of a second after a container's end, Podman removes it,
// and with it the knowledge whether memory ran out. So Wait watches the container's first process where that is
// visible, and inspects the container as soon as the process has ended. The code is -1 if it is unknown.
func (e *Engine) Wait(ctx context.Context, id string) (container.Exit, error) {
	var ended, oom bool // as far as known before Podman's answer
	interval := 2 * time.Millisecond
	for answered := time.Now(); ; {
		is, err := e.Inspect(ctx, id)
		s := is.Container.State
		switch {
		case ctx.Err() != nil:
			return container.Exit{}, ctx.Err()
		case errdefs.IsNotFound(err):
			code := e.removedCode(ctx, id)
			return container.Exit{Code: code, OOM: oom, Removed: !ended || code < 0}, ctx.Err() // after its end, Podman has removed it
		case errors.Is(err, errClosed), err != nil && time.Since(answered) > serviceTimeout:
			return container.Exit{}, e.explain("wait for container "+id, err)
		case err != nil:
			engine.Pause(ctx, 200*time.Millisecond)
			continue
		case endedState(s):
			return container.Exit{Code: s.ExitCode, OOM: s.OOMKilled || oom, Why: engine.OneLine(s.Error)}, nil
		case !begunState(s):
			engine.Pause(ctx, 50*time.Millisecond)
		case !ended:
			ended, oom = e.awaitEnd(ctx, id, s.Pid)
		default:
			engine.Pause(ctx, interval)
			interval = min(2*interval, 250*time.Millisecond)
		}
		answered = time.Now()
	}
}

// begunState reports whether a container's program was started.
func begunState(s *docker.State) bool {
	return s != nil && !slices.Contains([]docker.ContainerState{"created", "configured", "initialized"}, s.Status)
}

// endedState reports whether a container's program has ended.
func endedState(s *docker.State) bool {
	return s != nil && slices.Contains([]docker.ContainerState{"stopped", "exited", "removing"}, s.Status)
}

// awaitEnd waits for the end of a running container, and reports whether memory ran out, which Podman before 5.0
// does not report, though it has a field for it. Where the process is not visible, Podman waits: it then polls, and
// can't end meanwhile.
func (e *Engine) awaitEnd(ctx context.Context, id string, pid int) (ended, oom bool) {
	kills := oomKills(pid)
	if awaitExit(ctx, pid) {
		return true, kills() > 0
	}
	if _, err := e.waitCode(ctx, id); err != nil {
		engine.Pause(ctx, 200*time.Millisecond)
		return false, false
	}
	return true, false
}

// waitCode asks Podman for the exit code of a started container, and returns when it has ended. Podman 5 remembers
// the codes of removed containers.
func (e *Engine) waitCode(ctx context.Context, id string) (code int, err error) {
	err = e.call(ctx, request{
		method: http.MethodPost, path: "/containers/" + url.PathEscape(id) + "/wait", again: true, query: url.Values{"interval": {"40ms"}},
	}, &code)
	if err == nil && code < 0 {
		err = fmt.Errorf("podman returned the exit code %d", code)
	}
	return code, err
}

// removedCode finds the exit code of a removed container; in the end, in Podman's event log, which not every Podman
// has.
func (e *Engine) removedCode(ctx context.Context, id string) int {
	code, err := e.waitCode(ctx, id)
	if err == nil {
		return code
	}
	code = -1
	_ = e.readAnswer(ctx, request{method: http.MethodGet, path: "/events", again: true, query: url.Values{
		"stream": {"false"}, "since": {strconv.FormatInt(e.since.Add(-time.Hour).Unix(), 10)},
		"filters": {fmt.Sprintf(`{"container":[%q],"event":["died"]}`, id)},
	}}, func(answer io.Reader) error {
		for d := json.NewDecoder(answer); ; {
			var event struct {
				Actor struct {
					ID         string
					Attributes map[string]string
				}
			}
			if err := d.Decode(&event); err != nil {
				return err
			}
			if n, err := strconv.Atoi(event.Actor.Attributes["containerExitCode"]); err == nil && event.Actor.ID == id {
				code = n
			}
		}
	})
	return code
}
