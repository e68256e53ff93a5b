package podman

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// patience is how long a service may be away while somebody waits for a container, which lives on.
const patience = 30 * time.Second

// Wait implements [container.Engine]. When a container has ended, Podman removes it within about a
// tenth of a second, and with it forgets whether memory ran out. So its first process is watched
// where that can be seen from here, and the container is looked at as soon as it has ended. The code is
// -1 if nobody knows it.
func (e *Engine) Wait(ctx context.Context, id string) (container.Exit, error) {
	life := e.lives.of(id)
	if life.waits() { // there is nothing to ask yet, and the answer would hold up the start
		life.wait(ctx)
	}
	answered := time.Now()
	var end *ending
	defer func() {
		end.stop()
		if life.started == nil { // it is nobody else's
			life.first.Close()
		}
	}()
	for {
		var is inspected
		err := e.call(ctx, inspect(id), &is)
		exit, ended := is.State.ended()
		switch {
		case err == nil && ended:
			e.lives.end(id)
			exit.OOM = exit.OOM || end.killed()
			return exit, nil
		case isGone(err):
			e.lives.end(id)
			return e.afterwards(ctx, id, life, end)
		case ctx.Err() != nil:
			return container.Exit{}, ctx.Err()
		case errors.Is(err, errClosed), err != nil && time.Since(answered) > patience:
			return container.Exit{}, fmt.Errorf("wait for a container: %w", err)
		case err != nil:
			engine.Pause(ctx, 200*time.Millisecond)
			continue
		case is.State.begun():
			if end == nil {
				end = e.attend(ctx, id, is.State.PID, e.lives.hold(life, is.State.PID))
			}
			end.wait(ctx)
		default:
			life.wait(ctx)
		}
		answered = time.Now()
	}
}
