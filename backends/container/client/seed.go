package client

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/containerd/errdefs"
	moby "github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// SeedPath is where the container of a Fill has the volume.
const SeedPath = "/seed"

// Fill makes a volume with the content of an archive, unless a whole one exists, through a container that mounts it and never
// runs: engines unpack archives into such, too. create makes that container.
func (c *Client) Fill(ctx context.Context, volume string, labels map[string]string, archive io.Reader, create func() (id string, err error)) error {
	return c.Explain("fill volume "+volume, c.fill(ctx, volume, labels, archive, create))
}

func (c *Client) fill(ctx context.Context, volume string, labels map[string]string, archive io.Reader, create func() (string, error)) (err error) {
	// That it is there already, with other labels or the same, is no error.
	if err := c.Retry(ctx, func(l *moby.Client) error {
		_, err := l.VolumeCreate(ctx, moby.VolumeCreateOptions{Name: volume, Driver: "local", Labels: labels})
		return err
	}); err != nil {
		return err
	}
	id, err := create()
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if e := c.remove(ctx, id); err == nil {
			err = e
		}
	}()
	if whole, err := c.isWhole(ctx, id); whole || err != nil {
		return err
	}
	err = c.Unpack(ctx, id, SeedPath, archive)
	if errdefs.IsNotFound(err) {
		return backends.Refuse("somebody removed the container that filled the volume: "+Message(err), "try again")
	}
	if err != nil {
		return err
	}
	whole, err := c.isWhole(ctx, id)
	if err == nil && !whole {
		err = errors.New("what was put there is not there")
	}
	return err
}

// Unpack unpacks a tar archive in a container, with the archive's owners.
func (c *Client) Unpack(ctx context.Context, id, dir string, archive io.Reader) error {
	return c.Once(ctx, func(l *moby.Client) error {
		_, err := l.CopyToContainer(ctx, id, moby.CopyToContainerOptions{DestinationPath: dir, Content: archive})
		return err
	})
}

// isWhole reports whether the volume has the last file of its archive.
func (c *Client) isWhole(ctx context.Context, id string) (bool, error) {
	err := c.Retry(ctx, func(l *moby.Client) error {
		_, err := l.ContainerStatPath(ctx, id, moby.ContainerStatPathOptions{Path: SeedPath + "/" + container.SeedEnd})
		return err
	})
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
