package docker

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

const (
	seedPath         = "/seed"         // where the helper has the volume
	helperTimeout    = 2 * time.Minute // after which another server's helper counts as abandoned
	seedPollInterval = 200 * time.Millisecond
)

// Seed fills a volume through a container that mounts it and never runs: the engine unpacks archives into such, too.
// The container's name, which is unique, keeps two servers from filling the same volume at once.
func (l *link) Seed(ctx context.Context, volume string, labels map[string]string, archive io.Reader, image string) error {
	return l.explain("fill volume "+volume, l.seed(ctx, volume, labels, archive, image))
}

func (l *link) seed(ctx context.Context, volume string, labels map[string]string, archive io.Reader, image string) (err error) {
	// That it is there already, with other labels or the same, is no error.
	if _, err := l.VolumeCreate(ctx, client.VolumeCreateOptions{Name: volume, Driver: "local", Labels: labels}); err != nil {
		return err
	}
	helper, err := l.helper(ctx, volume, labels, image)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if e := l.remove(ctx, helper); err == nil {
			err = e
		}
	}()
	if whole, err := l.hasFile(ctx, helper, container.SeedEnd); whole || err != nil {
		return err
	}
	if err := l.unpack(ctx, helper, archive); err != nil {
		return err
	}
	whole, err := l.hasFile(ctx, helper, container.SeedEnd)
	if err == nil && !whole {
		err = errors.New("what was put there is not there")
	}
	return err
}

// helper makes the container, once no other server has one.
func (l *link) helper(ctx context.Context, volume string, labels map[string]string, image string) (string, error) {
	name := volume + "-seed"
	o := client.ContainerCreateOptions{
		Name:   name,
		Config: &api.Config{Image: image, Entrypoint: []string{seedPath}, Labels: labels, WorkingDir: "/"},
		HostConfig: &api.HostConfig{
			NetworkMode: "none",
			CapDrop:     []string{"ALL"},
			LogConfig:   api.LogConfig{Type: "none"},
			Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: volume, Target: seedPath,
				VolumeOptions: &mount.VolumeOptions{NoCopy: true}}},
		},
	}
	for deadline := time.Now().Add(helperTimeout); ; {
		r, err := l.ContainerCreate(ctx, o)
		switch {
		case errdefs.IsNotFound(err):
			return "", container.ErrNoImage
		case !errdefs.IsConflict(err):
			return r.ID, err
		}
		if time.Now().After(deadline) {
			if err := l.remove(ctx, name); err != nil {
				return "", err
			}
			deadline = time.Now().Add(helperTimeout)
		}
		if !engine.Pause(ctx, seedPollInterval) {
			return "", ctx.Err()
		}
	}
}

// unpack copies an archive into the volume.
func (l *link) unpack(ctx context.Context, helper string, archive io.Reader) error {
	_, err := l.CopyToContainer(ctx, helper, client.CopyToContainerOptions{DestinationPath: seedPath, Content: archive})
	if err != nil && errdefs.IsNotFound(err) {
		return backends.Refuse("somebody removed the container that filled the volume: "+engineMessage(err), "try again")
	}
	return err
}

// hasFile reports whether the volume has a file.
func (l *link) hasFile(ctx context.Context, helper, name string) (bool, error) {
	_, err := l.ContainerStatPath(ctx, helper, client.ContainerStatPathOptions{Path: seedPath + "/" + name})
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
