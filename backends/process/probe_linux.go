package process

import (
	"context"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Probe implements [backends.Backend]. It starts a sandbox and closes it: only that shows which layers the host gives.
func (b *Backend) Probe(ctx context.Context, spec backends.Spec) (backends.Probe, error) {
	p := backends.Probe{Backend: b.Name()}
	for _, language := range backends.Languages {
		p.Runtimes = append(p.Runtimes, b.probeRuntime(ctx, language))
	}
	result, err := b.try(ctx, spec)
	if err != nil {
		p.Why, p.Layers = backends.Why(err), backends.NotTried(err)
		return p, nil
	}
	p.Layers, p.Usable = backends.Tried(result.Contained.Layers, remedies), true
	return p, nil
}

// try runs the shell's no-op in a sandbox.
func (b *Backend) try(ctx context.Context, spec backends.Spec) (backends.Result, error) {
	spec.ID, spec.Language = "probe", "shell"
	s, err := b.Start(ctx, spec)
	if err != nil {
		return backends.Result{}, err
	}
	defer s.Close()
	return s.Exec(ctx, backends.Command{Args: []string{"bash", "-c", ":"}}, backends.Streams{})
}

func (b *Backend) probeRuntime(ctx context.Context, language string) backends.Runtime {
	r, err := b.runtime(ctx, language)
	var version string
	if err == nil {
		version, err = runtimes.Version(ctx, r)
	}
	if err != nil {
		return backends.Runtime{Name: language, Why: remedy.Text{err.Error()}}
	}
	return backends.Runtime{Name: language, Path: r.Path, Version: version, Why: remedy.Text{r.Why}}
}
