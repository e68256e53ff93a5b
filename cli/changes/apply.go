package changes

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
)

func (p commands) apply(c *cli.Context) error {
	return p.withSet(c, func(ctx context.Context, s store, set target) error {
		return p.do(ctx, c, s, workspace.Apply{Namespace: s.namespace, ID: set.ID, Paths: set.paths, Merge: c.Bool("merge")})
	}, isUndecided)
}

func (p commands) undo(c *cli.Context) error {
	return p.withSet(c, func(ctx context.Context, s store, set target) error {
		return p.do(ctx, c, s, workspace.Undo{Namespace: s.namespace, ID: set.ID})
	}, hasStatus(changes.StatusApplied))
}

func (p commands) drop(c *cli.Context) error {
	return p.withSet(c, func(ctx context.Context, s store, set target) error {
		return p.do(ctx, c, s, workspace.Drop{Namespace: s.namespace, ID: set.ID})
	}, hasStatus(changes.StatusProposed))
}

// do performs an effect, and prints its result.
func (p commands) do(ctx context.Context, c *cli.Context, s store, e pipeline.Effect[changes.Applied]) error {
	answer, _, err := pipeline.Do(ctx, s.Pipeline, e)
	if err != nil {
		return exit.AsFailure(err)
	}
	return p.Printf(c, answer, "%s\n", Result(answer))
}

// Result describes in one line how many paths were applied, restored or dropped, and how many were left out.
func Result(a changes.Applied) string {
	text := a.Set.Status
	if len(a.Paths)+len(a.Left) == 0 && text == changes.StatusApplied {
		return "all of it is applied already"
	}
	if n := len(a.Paths); n > 0 {
		text += " " + terminal.Count(n, "path")
	}
	if n := len(a.Left); n > 0 {
		text += "; " + terminal.Count(n, "path") + " held back or refused: sandboxmcp changes show --stat says why, and naming a path that is " +
			"held back applies it"
	}
	return text
}
