package containment

import (
	"context"
	"errors"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// PackagesOf returns the namespace's packages for a run in a language, or for the new session id. The view is empty
// if no directory of this machine can be mounted; Install then refuses to add packages.
func PackagesOf(ctx context.Context, p *pipeline.Pipeline, c Containment, namespace, language, id string) (packages.View, error) {
	// Without its own root, a sandbox can't show a directory at another path.
	if p.Config.Packages == nil || c.Base == "landlock" || !slices.Contains([]string{validate.Python, validate.Node}, language) {
		return packages.View{Release: func() {}}, nil
	}
	if err := c.Backend.CanMount(ctx); err != nil {
		if errors.As(err, new(*backends.Refusal)) {
			err = nil
		}
		return packages.View{Release: func() {}}, err
	}
	if id != "" {
		return p.Config.Packages.OpenSession(ctx, c.Backend, namespace, id, language)
	}
	return p.Config.Packages.View(ctx, c.Backend, namespace, "", language)
}
