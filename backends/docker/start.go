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
	if !out && isTemporary(err) && engine.Pause(ctx, retryPause) { // the first request was not sent
		out, err = sendOnce(ctx, start)
	}
	if err != nil && out && !gotResponse(err) {
		return l.started(ctx, id, err)
	}
	return l.explain("start container "+id, err)
}

// started finds out the outcome of a start without an answer. The start is not repeated: between a container's end and
// its removal, that would run it twice.
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

// isTime reports whether a time of the engine is one: the year 1 means never.
func isTime(at string) bool {
	t, err := time.Parse(time.RFC3339Nano, at)
	return err == nil && t.Year() > 1
}
