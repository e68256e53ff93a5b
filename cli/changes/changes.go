// Package changes has the commands about change sets. A change set contains the changes that a program made to a
// directory of the host, which a person reviews, applies or drops.
//
// A file calls those below it, in this order: changes, show, apply, print, find.
package changes

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
)

// commands has the commands' actions, on the streams of an invocation.
type commands struct{ *command.Streams }

// Command returns the command "changes".
func Command(s *command.Streams) *cli.Command {
	p := commands{s}
	return &cli.Command{
		Name:  "changes",
		Usage: "review, apply and drop what programs changed of a directory",
		UsageText: `sandboxmcp changes [--all] [--namespace NAMESPACE] [--json]
sandboxmcp changes show|apply|drop|undo|export ...`,
		Description: `A program that sandboxmcp run --workspace DIR --changes runs works on DIR as if it were its own, and DIR stays as
it is. What the program changed is a change set. Without a command, the change sets of the current directory are listed.

ID is that of the run, or its beginning; without one, the newest change set of the current directory that waits for a
decision is meant. PATH is a file or a directory, relative to the directory of the change set.

What tools on this machine would run or obey later, such as git hooks and tasks of editors, is held back: it is applied only when
its PATH is named. Set-uid bits, devices, links that lead out of the directory, and files with a secret are never applied.

Examples:
  sandboxmcp run --workspace . --changes -- npm test
  sandboxmcp changes show
  sandboxmcp changes apply`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "all", Usage: "list the change sets of all directories"}, command.NamespaceFlag(),
			command.JSONFlag()},
		Action: command.NoWords(p.list),
		Subcommands: []*cli.Command{{
			Name: "show", Usage: "show the difference, without secrets",
			UsageText:   "sandboxmcp changes show [ID] [PATH...] [--stat] [--json]",
			Description: "Examples:\n  sandboxmcp changes show --stat\n  sandboxmcp changes show src/main.go",
			Flags: []cli.Flag{
				&cli.BoolFlag{Name: "stat", Usage: "list the paths with the number of lines, instead of the lines"},
				command.NamespaceFlag(), command.JSONFlag(),
			},
			Action: p.show,
		}, {
			Name: "apply", Usage: "write the changes to the directory",
			UsageText: "sandboxmcp changes apply [ID] [PATH...] [--merge] [--json]",
			Description: `All of it is written, or nothing. If a file has changed since the program saw it, that is a conflict: nothing is
applied, and the conflicts are listed. --merge merges texts that changed on both sides, and takes the program's version of a PATH
that is named with it. Without PATH, what was not applied before follows.

Examples:
  sandboxmcp changes apply
  sandboxmcp changes apply .github/workflows`,
			Flags: []cli.Flag{
				&cli.BoolFlag{Name: "merge", Usage: "merge texts that the host has changed, too"},
				command.NamespaceFlag(), command.JSONFlag(),
			},
			Action: p.apply,
		}, {
			Name: "drop", Usage: "delete the changes",
			UsageText:   "sandboxmcp changes drop [ID] [--json]",
			Description: "Example: sandboxmcp changes drop",
			Flags:       []cli.Flag{command.NamespaceFlag(), command.JSONFlag()},
			Action:      p.drop,
		}, {
			Name: "undo", Usage: "restore the files that an applied change set replaced",
			UsageText: "sandboxmcp changes undo [ID] [--json]",
			Description: `Files that were changed after the change set was applied are conflicts: nothing is restored then.

Example: sandboxmcp changes undo`,
			Flags:  []cli.Flag{command.NamespaceFlag(), command.JSONFlag()},
			Action: p.undo,
		}, {
			Name: "export", Usage: "write the changes as a patch for git apply",
			UsageText: "sandboxmcp changes export [ID] [PATH...] [--out FILE]",
			Description: `The patch holds the files as they are, binary ones, too, except those that are never applied.

Example: sandboxmcp changes export --out review.patch`,
			Flags:  []cli.Flag{command.NamespaceFlag(), command.OutFlag()},
			Action: p.export,
		}},
	}
}

// list lists change sets, the newest first.
func (p commands) list(c *cli.Context) error {
	return p.withStore(c, func(_ context.Context, s store) error {
		filter := changes.Filter{Namespace: s.namespace}
		if !c.Bool("all") {
			filter.Dir = s.here
		}
		sets, err := workspace.List(s.Pipeline, filter)
		if err != nil {
			return err
		}
		return command.Table(p.Streams, c, sets, "No change sets of this directory; --all lists those of all directories.",
			[]terminal.Column{{Name: "ID", Whole: true}, {Name: "MADE"}, {Name: "STATUS"}, {Name: "CHANGES"}, {Name: "DIRECTORY", Spare: true}},
			func(set changes.Set) []string {
				return []string{set.ID, terminal.Ago(time.Since(set.Time)), set.Status, set.Counts.String(), set.Dir}
			})
	})
}
