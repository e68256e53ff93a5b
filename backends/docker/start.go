package docker

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

func (e *docker) Start(ctx context.Context, id string) error {
	l, err := e.connect(ctx)
	if err != nil {
		return err
	}
	start := func(ctx context.Context) error {
		_, err := l.ContainerStart(ctx, id, client.ContainerStartOptions{})
		return err
	}
	out, err := sendOnce(ctx, start)
	if !out && isTemporary(err) && engine.Pause(ctx, retryPause) { // nobody has heard the first
		out, err = sendOnce(ctx, start)
	}
	if err != nil && out && !gotResponse(err) {
		return l.started(ctx, id, err)
	}
	return l.explain("start container "+id, err)
}

// started finds out what became of a start without an answer. It is not asked for again: in the moment
// between a container's end and its removal, that would run it twice.
func (l *link) started(ctx context.Context, id string, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		r, err := l.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		if errdefs.IsNotFound(err) {
			return fmt.Errorf("start container %s: %w; and by now it is gone", id, cause)
		}
		if s := r.Container.State; err == nil && s != nil {
			if s.Running || isTime(s.StartedAt) {
				return nil
			}
			if s.Error != "" {
				return fmt.Errorf("start container %s: %s", id, engine.Plain(s.Error))
			}
		}
		if !engine.Pause(ctx, retryPause) {
			return l.explain("start container "+id, cause)
		}
	}
}

// isTime reports whether a time that the engine gives is one: it says the year 1 for never.
func isTime(at string) bool {
	t, err := time.Parse(time.RFC3339Nano, at)
	return err == nil && t.Year() > 1
}
