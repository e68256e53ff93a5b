package podman

import (
	"context"
	"errors"
	"fmt"
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
	life := e.own.get(id)
	if life.notStarted() { // there is nothing to ask yet, and the answer would hold up the start
		life.wait(ctx)
	}
	answered := time.Now()
	var waiter *exitWaiter
	defer func() {
		waiter.stop()
		if life.started == nil { // it is nobody else's
			life.pidfd.Close()
		}
	}()
	for {
		var is inspected
		err := e.call(ctx, inspect(id), &is)
		exit, ended := is.State.ended()
		switch {
		case err == nil && ended:
			e.own.removed(id)
			exit.OOM = exit.OOM || waiter.oomKilled()
			return exit, nil
		case isGone(err):
			e.own.removed(id)
			return e.removedExit(ctx, id, life, waiter)
		case ctx.Err() != nil:
			return container.Exit{}, ctx.Err()
		case errors.Is(err, errClosed), err != nil && time.Since(answered) > serviceTimeout:
			return container.Exit{}, fmt.Errorf("wait for a container: %w", err)
		case err != nil:
			engine.Pause(ctx, 200*time.Millisecond)
			continue
		case is.State.begun():
			if waiter == nil {
				waiter = e.newExitWaiter(ctx, id, is.State.PID, e.own.holdInit(life, is.State.PID))
			}
			waiter.wait(ctx)
		default:
			life.wait(ctx)
		}
		answered = time.Now()
	}
}
