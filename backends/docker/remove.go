package docker

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

func (l *link) Remove(ctx context.Context, id string) error {
	return l.explain("remove container "+id, l.remove(ctx, id))
}

// remove kills and removes a container. The engine may fail at it for a while (a file system that is busy), and may be
// removing it already, because the container has just ended by itself.
func (l *link) remove(ctx context.Context, id string) error {
	const removeTimeout = 30 * time.Second // for an engine that fails
	deadline := time.Now().Add(removeTimeout)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		_, err := l.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil || errdefs.IsNotFound(err):
			return nil
		case errdefs.IsConflict(err) || isTemporary(err):
		default:
			return err
		}
		if time.Now().After(deadline) || !engine.Pause(ctx, pause) {
			if ctx.Err() != nil {
				return fmt.Errorf("%w (%s)", ctx.Err(), engineMessage(err))
			}
			return err
		}
	}
}

func (l *link) List(ctx context.Context, label string) ([]container.Entry, error) {
	var r client.ContainerListResult
	err := retry(ctx, func() (err error) {
		r, err = l.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", label)})
		return err
	})
	if err != nil {
		return nil, l.explain("list containers", err)
	}
	var all []container.Entry
	for _, s := range r.Items {
		if len(s.Names) > 0 || !l.isGhost(ctx, s.ID) {
			all = append(all, container.Entry{ID: s.ID, Labels: s.Labels})
		}
	}
	return all, nil
}

// isGhost reports whether a container that is listed without a name does not exist. 20.10 may list such containers
// until it is restarted, when it was killed while it removed one.
func (l *link) isGhost(ctx context.Context, id string) bool {
	_, err := l.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	return errdefs.IsNotFound(err)
}
