package docker

import (
	"context"
	"io"
	"time"

	"github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	moby "github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/client"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

const (
	helperTimeout    = 2 * time.Minute // after which another server's helper counts as abandoned
	seedPollInterval = 200 * time.Millisecond
)

// Seed fills a volume through a helper, whose name, which is unique, keeps two servers from filling the same volume at once.
func (l *link) Seed(ctx context.Context, volume string, labels map[string]string, archive io.Reader, image string) error {
	return l.Fill(ctx, volume, labels, archive, func() (string, error) { return l.helper(ctx, volume, labels, image) })
}

// helper makes the container, once no other server has one.
func (l *link) helper(ctx context.Context, volume string, labels map[string]string, image string) (string, error) {
	name := volume + "-seed"
	o := moby.ContainerCreateOptions{
		Name:   name,
		Config: &api.Config{Image: image, Entrypoint: []string{client.SeedPath}, Labels: labels, WorkingDir: "/"},
		HostConfig: &api.HostConfig{
			NetworkMode: "none",
			CapDrop:     []string{"ALL"},
			LogConfig:   api.LogConfig{Type: "none"},
			Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: volume, Target: client.SeedPath,
				VolumeOptions: &mount.VolumeOptions{NoCopy: true}}},
		},
	}
	for deadline := time.Now().Add(helperTimeout); ; {
		r, err := l.api.ContainerCreate(ctx, o)
		switch {
		case errdefs.IsNotFound(err):
			return "", container.ErrNoImage
		case !errdefs.IsConflict(err):
			return r.ID, err
		}
		if time.Now().After(deadline) {
			if err := l.Remove(ctx, name); err != nil {
				return "", err
			}
			deadline = time.Now().Add(helperTimeout)
		}
		if !engine.Pause(ctx, seedPollInterval) {
			return "", ctx.Err()
		}
	}
}
