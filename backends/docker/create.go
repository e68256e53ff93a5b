package docker

import (
	"context"
	"fmt"
	"io"
	"strings"

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
	r, err := l.ContainerCreate(ctx, client.ContainerCreateOptions{Name: c.Name, Config: config(c, i), HostConfig: l.hostConfig(c, i)})
	if errdefs.IsNotFound(err) && strings.Contains(err.Error(), "No such image") {
		l.images.Delete(c.Image)
		return "", fmt.Errorf("create container %s: %w", c.Name, container.ErrNoImage)
	}
	return r.ID, l.explain("create container "+c.Name, err)
}

func (l *link) Start(ctx context.Context, id string) error {
	_, err := l.ContainerStart(ctx, id, client.ContainerStartOptions{})
	return l.explain("start container "+id, err)
}

func (l *link) Attach(ctx context.Context, id string, stderr io.Writer) (io.ReadWriteCloser, error) {
	c, err := engine.Attach(ctx, l.Client, id, stderr)
	return c, l.explain("attach to container "+id, err)
}
