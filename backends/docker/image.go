package docker

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

func (e *docker) Image(ctx context.Context, ref string) (container.Image, error) {
	l, err := e.connect(ctx)
	if err != nil {
		return container.Image{}, err
	}
	return l.inspectImage(ctx, ref)
}

func (e *docker) Images(ctx context.Context, label string) ([]container.Image, error) {
	l, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	var list client.ImageListResult
	err = retry(ctx, func() error {
		list, err = l.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("label", label)})
		return err
	})
	if err != nil {
		return nil, l.explain("list images", err)
	}
	var images []container.Image
	for _, s := range list.Items {
		i, err := l.inspectImage(ctx, s.ID)
		if err == container.ErrNoImage { // removed since
			continue
		}
		if err != nil {
			return nil, err
		}
		images = append(images, i)
	}
	slices.SortFunc(images, func(a, b container.Image) int {
		return cmp.Or(strings.Compare(strings.Join(a.Names, " "), strings.Join(b.Names, " ")), strings.Compare(a.ID, b.ID))
	})
	return images, nil
}

// inspectImage looks up an image by name or id.
func (l *link) inspectImage(ctx context.Context, ref string) (container.Image, error) {
	var r client.ImageInspectResult
	err := retry(ctx, func() (err error) {
		r, err = l.ImageInspect(ctx, ref)
		return err
	})
	if errdefs.IsNotFound(err) {
		return container.Image{}, container.ErrNoImage
	}
	if err != nil {
		return container.Image{}, l.explain("look up image "+ref, err)
	}
	i := container.Image{
		ID:     r.ID,
		Names:  r.RepoTags,
		Digest: engine.Digest(ref, r.RepoDigests),
		Arch:   r.Architecture,
		Size:   r.Size,
	}
	i.Created, _ = time.Parse(time.RFC3339Nano, r.Created) // may be missing
	if c := r.Config; c != nil {
		i.Env, i.Labels = c.Env, c.Labels
		i.Volumes = slices.Sorted(maps.Keys(c.Volumes))
	}
	return i, nil
}
