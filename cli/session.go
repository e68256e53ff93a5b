package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

func (p *program) sessionCommand() *cli.Command {
	return &cli.Command{
		Name:      "session",
		Usage:     "work with the sessions of a running server: list, create, exec, attach, stats, inspect, kill",
		UsageText: "sandboxmcp session COMMAND ...",
		Description: `A session is a sandbox whose interpreter stays: variables, imports and files live on. Agents and people share
them. The beginning of an id stands for it where no other has it.

Example: sandboxmcp session create --language python && sandboxmcp session list`,
		Subcommands: []*cli.Command{p.sessionListCommand(), p.sessionCreateCommand(), p.sessionExecCommand(), p.sessionAttachCommand(),
			p.sessionStatsCommand(), command.Under("session", p.inspectCommand()), p.sessionKillCommand()},
	}
}

func (p *program) sessionListCommand() *cli.Command {
	return &cli.Command{
		Name:        "list",
		Usage:       "list sessions",
		UsageText:   "sandboxmcp session list [--namespace NS] [--all] [--json] [--server PID]",
		Description: `Example: sandboxmcp session list --all`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "namespace", Usage: "only those of the namespace `NS`"},
			&cli.BoolFlag{Name: "all", Usage: "also the last that have ended, and why"},
			command.JSONFlag(), serverFlag(),
		},
		Action: command.NoWords(p.sessionList),
	}
}

func (p *program) sessionList(c *cli.Context) error {
	return asking(c, func(ctx context.Context, client *control.Client) error {
		all, err := client.Sessions(ctx, c.String("namespace"))
		if err != nil {
			return err
		}
		list := []session.Info{}
		for _, i := range all {
			if i.State != "dead" || c.Bool("all") {
				list = append(list, i)
			}
		}
		if c.Bool("json") {
			return terminal.WriteJSON(p.Out, list)
		}
		if len(list) == 0 {
			fmt.Fprintln(p.Out, "there are no sessions")
			return nil
		}
		var rows [][]string
		for _, i := range list {
			state := i.State
			if i.Ended != "" {
				state += " (" + i.Ended + ")"
			}
			rows = append(rows, []string{i.ID, state, i.Language, i.Namespace, fmt.Sprint(i.Cells), terminal.Ago(time.Since(i.Used)), i.Backend})
		}
		return terminal.List(p.Out, rows, terminal.Column{Name: "ID", Whole: true}, terminal.Column{Name: "STATE"}, terminal.Column{Name: "LANGUAGE"}, terminal.Column{Name: "NAMESPACE"},
			terminal.Column{Name: "CELLS", Right: true}, terminal.Column{Name: "USED"}, terminal.Column{Name: "BACKEND", Spare: true})
	})
}

func (p *program) sessionKillCommand() *cli.Command {
	return &cli.Command{
		Name:      "kill",
		Usage:     "end a session, and all that runs in it",
		UsageText: "sandboxmcp session kill SESSION|--id SESSION [--json] [--server PID]",
		Description: `Its variables and files are gone. The log keeps who ended it.

Example: sandboxmcp session kill 01K9ZB5W7Q`,
		Flags:  []cli.Flag{idFlag(), command.JSONFlag(), serverFlag()},
		Action: p.sessionKill,
	}
}

func (p *program) sessionKill(c *cli.Context) error {
	id, _, err := sessionNamed(c, 0)
	if err != nil {
		return err
	}
	return asking(c, func(ctx context.Context, client *control.Client) error {
		info, err := client.End(ctx, id)
		switch {
		case err != nil:
			return err
		case c.Bool("json"):
			return terminal.WriteJSON(p.Out, info)
		}
		fmt.Fprintf(p.Out, "session %s has ended after %s; its variables and files are gone\n", terminal.Visible(info.ID), terminal.Count(info.Cells, "cell"))
		return nil
	})
}
