package docker

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

func (l *link) Images(ctx context.Context, label string) ([]container.Image, error) {
	var list client.ImageListResult
	err := retry(ctx, func() (err error) {
		list, err = l.ImageList(ctx, client.ImageListOptions{Filters: make(client.Filters).Add("label", label)})
		return err
	})
	if err != nil {
		return nil, l.explain("list images", err)
	}
	var images []container.Image
	for _, s := range list.Items {
		i, err := l.Image(ctx, s.ID)
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

func (l *link) Image(ctx context.Context, ref string) (container.Image, error) {
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

func (l *link) Pull(ctx context.Context, ref string, progress func(string)) error {
	doing := "pull image " + ref
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return backends.Refuse(doing+": "+err.Error(), "name it as NAME, NAME:TAG or NAME@sha256:...")
	}
	login, err := l.endpoint.login.credentials(ctx, reference.Domain(named))
	if err != nil {
		return err
	}
	auth, err := authconfig.Encode(login)
	if err != nil {
		return l.explain(doing, err)
	}
	return retry(ctx, func() error {
		r, err := l.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: auth})
		if err != nil {
			return l.explain(doing, err)
		}
		defer r.Close()
		return l.explain(doing, engine.PrintProgress(r, progress))
	})
}

// Build uses the builder that is in all engines since 20.10 (not BuildKit, which needs a session).
func (l *link) Build(ctx context.Context, ref string, archive io.Reader, labels map[string]string, progress func(string)) error {
	doing := "build image " + ref
	accounts := map[string]registry.AuthConfig{}
	for _, name := range l.endpoint.login.registries() {
		// Credentials that are not needed may fail.
		if a, err := l.endpoint.login.credentials(ctx, name); err == nil && a != (registry.AuthConfig{}) {
			accounts[serverKey(name)] = a
		}
	}
	r, err := l.ImageBuild(ctx, archive, client.ImageBuildOptions{
		Tags:        []string{ref},
		Dockerfile:  "Containerfile",
		Labels:      labels,
		Remove:      true,
		ForceRemove: true,
		Version:     build.BuilderV1,
		AuthConfigs: accounts,
	})
	if err != nil {
		return l.explain(doing, err)
	}
	defer r.Body.Close()
	return l.explain(doing, engine.PrintProgress(r.Body, progress))
}
