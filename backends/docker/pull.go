package docker

import (
	"context"
	"io"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

func (e *docker) Pull(ctx context.Context, ref string, progress func(string)) error {
	l, err := e.connect(ctx)
	if err != nil {
		return err
	}
	doing := "pull image " + ref
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return &backends.Refusal{Reason: doing + ": " + err.Error(), Remedy: "name it as NAME, NAME:TAG or NAME@sha256:..."}
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
		return l.explain(doing, printProgress(r, progress))
	})
}

// Build uses the builder that is in all engines since 20.10 (not BuildKit, which needs a session).
func (e *docker) Build(ctx context.Context, ref string, archive io.Reader, labels map[string]string, progress func(string)) error {
	l, err := e.connect(ctx)
	if err != nil {
		return err
	}
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
	return l.explain(doing, printProgress(r.Body, progress))
}
