package docker

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/containerd/errdefs"
	moby "github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/client"
)

func (l *link) Create(ctx context.Context, c container.Container) (string, error) {
	r, err := l.api.ContainerCreate(ctx, moby.ContainerCreateOptions{Name: c.Name, Config: containerConfig(c), HostConfig: l.hostConfig(c)})
	if errdefs.IsNotFound(err) && strings.Contains(err.Error(), "No such image") {
		return "", fmt.Errorf("create container %s: %w", c.Name, container.ErrNoImage)
	}
	return r.ID, l.explain("create container "+c.Name, err)
}

func (l *link) Update(ctx context.Context, id string, r container.Resources) error {
	limits := l.resources(r)
	return l.explain("change the limits of container "+id, l.Retry(ctx, func(c client.Link) error {
		_, err := c.ContainerUpdate(ctx, id, moby.ContainerUpdateOptions{Resources: &limits})
		return err
	}))
}

func (l *link) Seed(ctx context.Context, volume string, labels map[string]string, archive io.Reader, image string) error {
	return l.FillVolume(ctx, volume, labels, archive, image, l.Create)
}
