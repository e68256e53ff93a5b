package changes

import (
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
)

// show prints the difference, or a list of its paths.
func (p commands) show(c *cli.Context) error {
	return p.withSet(c, anyStatus, func(ctx context.Context, s store, set target) error {
		switch {
		case c.Bool("json"):
			return terminal.WriteJSON(p.Out, set.Set)
		case c.Bool("stat"):
			return PrintList(p.Out, set.Set)
		}
		text, err := workspace.Diff(ctx, s.Pipeline, s.namespace, set.ID, set.paths)
		if err != nil {
			return err
		}
		return PrintDiff(p.Out, text)
	})
}

// export writes the patch as git reads it.
func (p commands) export(c *cli.Context) error {
	return p.withSet(c, anyStatus, func(_ context.Context, s store, set target) error {
		return p.WriteOut(c.String("out"), func(w io.Writer) error {
			return workspace.Export(w, s.Pipeline, s.namespace, set.ID, set.paths)
		})
	})
}
