package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/registry"
	moby "github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// Image implements [container.Engine].
func (c *Client) Image(ctx context.Context, ref string) (container.Image, error) {
	var r moby.ImageInspectResult
	err := c.Retry(ctx, func(l Link) (err error) {
		r, err = l.ImageInspect(ctx, ref)
		return err
	})
	return c.ConvertImage(ref, r.InspectResponse, err)
}

// ConvertImage converts an engine's description of the image ref.
func (c *Client) ConvertImage(ref string, r image.InspectResponse, err error) (container.Image, error) {
	if errdefs.IsNotFound(err) {
		return container.Image{}, fmt.Errorf("%w: %s", container.ErrNoImage, ref)
	}
	if err != nil {
		return container.Image{}, c.Explain("look up image "+ref, err)
	}
	i := container.Image{
		ID:    "sha256:" + strings.TrimPrefix(r.ID, "sha256:"), // Podman's API omits the prefix
		Names: r.RepoTags, Digest: chooseDigest(ref, r.RepoDigests), Arch: r.Architecture, Size: r.Size,
	}
	i.Created, _ = time.Parse(time.RFC3339Nano, r.Created) // may be missing
	if c := r.Config; c != nil {
		i.Env, i.Labels = c.Env, c.Labels
		i.Volumes = slices.Sorted(maps.Keys(c.Volumes))
	}
	return i, nil
}

// Images implements [container.Engine].
func (c *Client) Images(ctx context.Context, label string) ([]container.Image, error) {
	var list moby.ImageListResult
	err := c.Retry(ctx, func(l Link) (err error) {
		list, err = l.ImageList(ctx, moby.ImageListOptions{Filters: make(moby.Filters).Add("label", label)})
		return err
	})
	if err != nil {
		return nil, c.Explain("list images", err)
	}
	var images []container.Image
	for _, s := range list.Items {
		i, err := c.Image(ctx, s.ID)
		if errors.Is(err, container.ErrNoImage) { // removed meanwhile
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

// Build makes an image from a tar archive with a Containerfile, with credentials by registry. It uses the builder of
// all engines (not BuildKit, which needs a session).
func (c *Client) Build(ctx context.Context, ref string, archive io.Reader, labels map[string]string,
	credentials map[string]registry.AuthConfig, progress func(string)) error {
	return c.Explain("build image "+ref, c.Send(ctx, func(l Link) error {
		r, err := l.ImageBuild(ctx, archive, moby.ImageBuildOptions{
			Tags: []string{ref}, Dockerfile: "Containerfile", Labels: labels, Remove: true, ForceRemove: true,
			Version: build.BuilderV1, AuthConfigs: credentials,
		})
		if err != nil {
			return err
		}
		defer r.Body.Close()
		return PrintProgress(r.Body, progress)
	}))
}

// chooseDigest returns an image's digest (repository@sha256:...) at the registry of ref: the same content may have
// come from several. It is "" if no registry has the image: Podman gives local images a digest, too, under the
// registry localhost.
func chooseDigest(ref string, digests []string) string {
	asked, _ := reference.ParseNormalizedNamed(ref) // may be an id
	first := ""
	for _, d := range digests {
		n, err := reference.ParseNormalizedNamed(d)
		if err != nil || reference.Domain(n) == "localhost" {
			continue
		}
		if asked != nil && n.Name() == asked.Name() {
			return d
		}
		first = cmp.Or(first, d)
	}
	return first
}
