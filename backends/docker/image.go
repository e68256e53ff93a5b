package docker

import (
	"context"
	"io"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	moby "github.com/moby/moby/client"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/client"
)

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
	return l.explain(doing, l.Retry(ctx, func(c client.Link) error {
		r, err := c.ImagePull(ctx, ref, moby.ImagePullOptions{RegistryAuth: auth})
		if err != nil {
			return err
		}
		defer r.Close()
		return client.PrintProgress(r, progress)
	}))
}

func (l *link) Build(ctx context.Context, ref string, archive io.Reader, labels map[string]string, progress func(string)) error {
	accounts := map[string]registry.AuthConfig{}
	for _, name := range l.endpoint.login.registries() {
		// Credentials are optional here, so their error is ignored.
		if a, err := l.endpoint.login.credentials(ctx, name); err == nil && a != (registry.AuthConfig{}) {
			accounts[serverKey(name)] = a
		}
	}
	return l.Client.Build(ctx, ref, archive, labels, accounts, progress)
}
