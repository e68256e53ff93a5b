package client

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	moby "github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

const (
	seedPath         = "/seed"         // the volume's path in the helper
	helperTimeout    = 2 * time.Minute // after which another server's helper counts as abandoned
	seedPollInterval = 200 * time.Millisecond
)

// FillVolume makes a volume with the content of an archive, unless a complete one exists. Its helper is a container
// that mounts the volume and never runs: engines also unpack archives into such containers. create is the engine's
// own call.
func (c *Client) FillVolume(ctx context.Context, volume string, labels map[string]string, archive io.Reader, image string,
	create func(context.Context, container.Container) (string, error)) (err error) {
	defer func() { err = c.Explain("fill volume "+volume, err) }()
	// An existing volume is not an error, whatever its labels.
	if err := c.Retry(ctx, func(l Link) error {
		_, err := l.VolumeCreate(ctx, moby.VolumeCreateOptions{Name: volume, Driver: "local", Labels: labels})
		return err
	}); err != nil {
		return err
	}
	name := volume + "-seed"
	id, err := c.createHelper(ctx, name, func() (string, error) {
		return create(ctx, container.Container{
			Name: name, Image: image, Args: []string{seedPath}, User: "0:0", Labels: labels, Files: 64,
			Binds: []container.Bind{{Host: volume, Inside: seedPath, Write: true}},
		})
	})
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
	err = c.Unpack(ctx, id, seedPath, archive)
	if errdefs.IsNotFound(err) {
		return backends.Refuse("somebody removed the container that filled the volume: "+Message(err), "try again")
	}
	if err != nil {
		return err
	}
	whole, err := c.isWhole(ctx, id)
	if err == nil && !whole {
		err = errors.New("the volume is empty after it was filled")
	}
	return err
}

// createHelper creates the helper once no other server has one: its unique name keeps two servers from filling the
// same volume at once.
func (c *Client) createHelper(ctx context.Context, name string, create func() (string, error)) (string, error) {
	for deadline := time.Now().Add(helperTimeout); ; {
		id, err := create()
		if err == nil || !strings.Contains(err.Error(), "already in use") { // Podman's response is not a conflict
			return id, err
		}
		if time.Now().After(deadline) {
			if err := c.remove(ctx, name); err != nil {
				return "", err
			}
			deadline = time.Now().Add(helperTimeout)
		}
		if !engine.Pause(ctx, seedPollInterval) {
			return "", ctx.Err()
		}
	}
}

// Unpack unpacks a tar archive in a container, with the archive's owners.
func (c *Client) Unpack(ctx context.Context, id, dir string, archive io.Reader) error {
	return c.Send(ctx, func(l Link) error {
		_, err := l.CopyToContainer(ctx, id, moby.CopyToContainerOptions{DestinationPath: dir, Content: archive})
		return err
	})
}

// isWhole reports whether the volume contains the last file of its archive.
func (c *Client) isWhole(ctx context.Context, id string) (bool, error) {
	err := c.Retry(ctx, func(l Link) error {
		_, err := l.ContainerStatPath(ctx, id, moby.ContainerStatPathOptions{Path: seedPath + "/" + container.SeedEnd})
		return err
	})
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
