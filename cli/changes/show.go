package changes

import (
	"context"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
)

// show prints the difference and the paths that need attention, or a list of all paths.
func (p commands) show(c *cli.Context) error {
	return p.withSet(c, func(ctx context.Context, s store, set target) error {
		switch {
		case c.Bool("json"):
			return terminal.WriteJSON(p.Out, set.Set)
		case c.Bool("stat"):
			return PrintList(p.Out, set.Set)
		}
		text, err := workspace.Diff(ctx, s.Pipeline, set.Set, set.paths)
		if err == nil {
			err = PrintDiff(p.Out, text)
		}
		if err != nil {
			return err
		}
		set.Entries = slices.DeleteFunc(set.Entries, func(e changes.Entry) bool { return e.Held+e.Refused+e.Mark == "" && !e.Stale })
		return PrintList(p.Out, set.Set)
	}, isUndecided, isReadable)
}

// export writes the patch in the format of "git apply".
func (p commands) export(c *cli.Context) error {
	return p.withSet(c, func(_ context.Context, s store, set target) error {
		return p.WriteOut(c.String("out"), func(w io.Writer) error {
			return workspace.Export(w, s.Pipeline, set.Set, set.paths)
		})
	}, isUndecided, isReadable)
}
