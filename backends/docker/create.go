package docker

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

func (l *link) Create(ctx context.Context, c container.Container) (string, error) {
	i, err := l.image(ctx, c.Image)
	if err != nil {
		return "", fmt.Errorf("create container %s: %w", c.Name, err)
	}
	id, err := l.make(ctx, client.ContainerCreateOptions{Name: c.Name, Config: config(c, i), HostConfig: l.hostConfig(c, i)})
	if errdefs.IsNotFound(err) && strings.Contains(err.Error(), "No such image") {
		l.images.Delete(c.Image)
		return "", fmt.Errorf("create container %s: %w", c.Name, container.ErrNoImage)
	}
	return id, l.explain("create container "+c.Name, err)
}

// make creates a container, if need be in two attempts, and leaves no unknown one behind: a request without an answer
// may have made a container of that name. Only a name makes that safe.
func (l *link) make(ctx context.Context, o client.ContainerCreateOptions) (string, error) {
	r, out, err := l.create(ctx, o)
	if err == nil || !isTemporary(err) && gotResponse(err) {
		return r.ID, err
	}
	if out && !gotResponse(err) {
		if o.Name == "" {
			return "", err
		}
		if gone := l.discard(ctx, o); gone != nil {
			return "", fmt.Errorf("%w; and what may be left of it could not be removed: %w", err, gone)
		}
	}
	if !isTemporary(err) || !engine.Pause(ctx, retryPause) {
		return "", err
	}
	r, out, err = l.create(ctx, o)
	if out && !gotResponse(err) && o.Name != "" {
		_ = l.discard(ctx, o) // the error that is returned is as good
	}
	return r.ID, err
}

func (l *link) create(ctx context.Context, o client.ContainerCreateOptions) (r client.ContainerCreateResult, out bool, err error) {
	out, err = sendOnce(ctx, func(ctx context.Context) (err error) {
		r, err = l.ContainerCreate(ctx, o)
		return err
	})
	return r, out, err
}

// discard removes the container that a request without an answer may have made, also after ctx has ended. A container
// with other labels is somebody else's.
func (l *link) discard(ctx context.Context, o client.ContainerCreateOptions) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return retry(ctx, func() error {
		r, err := l.ContainerInspect(ctx, o.Name, client.ContainerInspectOptions{})
		if errdefs.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for key, value := range o.Config.Labels {
			if r.Container.Config == nil || r.Container.Config.Labels[key] != value {
				return nil
			}
		}
		return l.remove(ctx, r.Container.ID)
	})
}

func (l *link) Start(ctx context.Context, id string) error {
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

func (l *link) Attach(ctx context.Context, id string, stderr io.Writer) (io.ReadWriteCloser, error) {
	c, err := engine.Attach(ctx, l.Client, id, stderr)
	return c, l.explain("attach to container "+id, err)
}
