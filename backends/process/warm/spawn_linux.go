package warm

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/backends/process/templates"
)

// startCold starts a sandbox without an idle process.
func (b *Backend) startCold(ctx context.Context, spec backends.Spec) (*sandbox, error) {
	s, err := b.newSandbox(ctx, spec)
	if err == nil {
		err = s.LaunchOrClose(ctx, b.spawn)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// newSandbox decides the properties of a sandbox.
func (b *Backend) newSandbox(ctx context.Context, spec backends.Spec) (*sandbox, error) {
	core, err := b.NewSandbox(ctx, spec)
	if err != nil {
		return nil, err
	}
	s := &sandbox{Sandbox: core, ram: spec.Limits.WithDefaults().RAM, inside: b.Inside(), missed: b.pool.Missed}
	core.SetHooks(process.Hooks{Ended: s.idleEnded, Closing: s.closeIdle, Removed: b.pool.Fill})
	return s, nil
}

// spawn returns a sandbox's PID 1, prespawned or forked by a template if possible.
func (b *Backend) spawn(ctx context.Context, s *process.Sandbox) (*process.Init, error) {
	switch {
	case !b.active || !s.HasNamespaces():
		return b.Spawn(ctx, s)
	case s.HostIndependent():
		return b.spares.Acquire(ctx, rootKey(s.Runtime()), func(ctx context.Context) (*process.Init, error) {
			return b.spawnForRuntime(ctx, s.Runtime())
		})
	}
	return b.spares.Acquire(ctx, "any", func(ctx context.Context) (*process.Init, error) { return b.SpawnByLauncher(ctx, b.Namespaces()) })
}

// spawnForRuntime has the runtime's template fork a PID 1, or another template if the first has died idle. Without
// a template, a launcher forks it, which only takes longer.
func (b *Backend) spawnForRuntime(ctx context.Context, r runtimes.Runtime) (*process.Init, error) {
	var late error
	for range 2 {
		one, err := b.templates.Acquire(ctx, rootKey(r), func(ctx context.Context) (*process.Template, error) { return b.StartTemplate(ctx, r) })
		if errors.Is(err, templates.ErrClosed) {
			return nil, err
		}
		if err != nil {
			break
		}
		child, err := b.SpawnByTemplate(ctx, one)
		if err == nil {
			return child, nil
		}
		if cause := ctx.Err(); cause == nil || !errors.Is(err, cause) {
			b.templates.Drop(one, nil) // a caller's deadline is not the template's fault
		}
		late = err
	}
	if ctx.Err() != nil {
		return nil, cmp.Or(late, ctx.Err())
	}
	return b.SpawnByLauncher(ctx, b.Namespaces())
}

// rootKey returns a key for the root directory that a runtime's sandboxes share.
func rootKey(r runtimes.Runtime) string {
	return fmt.Sprintf("%q %q", r.Prefixes, r.Links) // %q prints a map's keys in order
}
