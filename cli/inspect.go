package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

func (p *program) inspectCommand() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "show what is in a session: variables, files, environment",
		UsageText: "sandboxmcp inspect SESSION|--id SESSION [--json] [--server PID]",
		Description: `Secrets are masked.

Example: sandboxmcp inspect 01K9ZB5W7Q`,
		Flags:  []cli.Flag{idFlag(), command.JSONFlag(), serverFlag()},
		Action: p.inspect,
	}
}

func (p *program) inspect(c *cli.Context) error {
	id, _, err := sessionNamed(c, 0)
	if err != nil {
		return err
	}
	return asking(c, func(ctx context.Context, client *control.Client) error {
		state, err := client.Inspect(ctx, id)
		switch {
		case err != nil:
			return err
		case c.Bool("json"):
			return terminal.WriteJSON(p.Out, state)
		}
		return p.showState(state)
	})
}

func (p *program) showState(s session.State) error {
	var b strings.Builder
	showUse(&b, s.Info, s.Usage)
	if s.Note != "" {
		terminal.Fact(&b, "note", s.Note)
	}
	for _, e := range s.Env {
		terminal.Fact(&b, "environment", e)
	}
	if _, err := p.Out.Write([]byte(b.String())); err != nil {
		return err
	}
	var rows [][]string
	for _, v := range s.Variables {
		size := ""
		if v.Unit != "" {
			size = fmt.Sprintf("%d %s", v.Size, v.Unit)
		}
		rows = append(rows, []string{v.Name, v.Type, size, v.Text})
	}
	if len(rows) > 0 {
		fmt.Fprintln(p.Out)
		if err := terminal.List(p.Out, rows, terminal.Columns("VARIABLE", "TYPE", "SIZE", "VALUE")...); err != nil {
			return err
		}
	}
	rows = nil
	for _, f := range s.Files {
		rows = append(rows, []string{fmt.Sprint(f.Size), f.Changed.Local().Format(time.DateTime), f.Name})
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(p.Out)
	return terminal.List(p.Out, rows, terminal.Column{Name: "BYTES", Right: true}, terminal.Column{Name: "CHANGED"}, terminal.Column{Name: "FILE"})
}
