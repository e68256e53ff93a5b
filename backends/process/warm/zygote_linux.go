package warm

import (
	"context"
	"fmt"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/backends/process/zygote"
)

// The forks of a zygote share its hash seed, canaries and memory layout. These limits bound that.
const (
	maxForks     = 1000
	maxZygoteAge = 10 * time.Minute
	// spawnTimeout bounds the fork of a PID 1 and its setup: a run that waits longer would have started sooner
	// without a zygote.
	spawnTimeout = 5 * time.Second
	// maxZygotes bounds the zygotes: callers choose the names of scripts.
	maxZygotes = 4
)

// scriptKind is the key of the zygotes for a script of a runtime.
func scriptKind(r runtimes.Runtime, script string) string { return script + " " + rootKey(r) }

// spawnByZygote has the zygote for a script of a runtime fork a PID 1.
func (b *Backend) spawnByZygote(ctx context.Context, r runtimes.Runtime, script string) (*process.Init, *process.Template, error) {
	one, err := b.zygotes.Acquire(ctx, scriptKind(r, script), func(ctx context.Context) (*process.Template, error) {
		return b.startZygote(ctx, r, script)
	})
	if err != nil {
		return nil, nil, err
	}
	soon, cancel := context.WithTimeout(ctx, spawnTimeout)
	defer cancel()
	child, err := b.SpawnByTemplate(soon, one)
	if err != nil {
		if ctx.Err() == nil {
			b.zygotes.Drop(one, err)
		}
		return nil, nil, err
	}
	return child, one, nil
}

// startZygote starts a template whose PID 1 is a Python just before it would run its script, and whose children are
// forks of it: see package zygote.
func (b *Backend) startZygote(ctx context.Context, r runtimes.Runtime, script string) (*process.Template, error) {
	code, err := b.bytecode(ctx, r.Path, "zygote", zygote.Source())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, idleStartTimeout)
	defer cancel()
	// Python makes the script's name absolute at its start.
	one, err := b.StartForker(ctx, r, process.Forker{
		File: zygote.File, Code: code, Args: []string{"python", script}, Env: []string{"PYTHONPATH=" + process.ForkerDir},
	})
	if err != nil {
		return nil, fmt.Errorf("start a Python to fork: %w", err)
	}
	return one, nil
}
