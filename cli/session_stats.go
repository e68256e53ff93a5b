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

func (p *program) sessionStatsCommand() *cli.Command {
	return &cli.Command{
		Name:      "stats",
		Usage:     "show what sessions use",
		UsageText: "sandboxmcp session stats [SESSION|--id SESSION] [--namespace NS] [--json] [--server PID]",
		Description: `Memory and disk are of now, CPU time since the session began.

Example: sandboxmcp session stats 01K9ZB5W7Q`,
		Flags: []cli.Flag{idFlag(), &cli.StringFlag{Name: "namespace", Usage: "only those of the namespace `NS`"},
			command.JSONFlag(), serverFlag()},
		Action: p.sessionStats,
	}
}

func (p *program) sessionStats(c *cli.Context) error {
	id := ""
	if c.NArg() > 0 || c.IsSet("id") {
		var err error
		if id, _, err = sessionNamed(c, 0); err != nil {
			return err
		}
	}
	return asking(c, func(ctx context.Context, client *control.Client) error {
		list, err := client.Usage(ctx, c.String("namespace"), id)
		switch {
		case err != nil:
			return err
		case c.Bool("json") && id != "" && len(list) == 1:
			return terminal.WriteJSON(p.Out, list[0])
		case c.Bool("json"):
			return terminal.WriteJSON(p.Out, list)
		case id != "" && len(list) == 1:
			var b strings.Builder
			showUse(&b, list[0].Info, list[0].Usage)
			_, err := p.Out.Write([]byte(b.String()))
			return err
		case len(list) == 0:
			fmt.Fprintln(p.Out, "there are no sessions")
			return nil
		}
		var rows [][]string
		for _, u := range list {
			rows = append(rows, []string{u.ID, u.State, fmt.Sprintf("%s of %d MB", inMB(u.Usage.MemoryBytes), u.Limits.RAM),
				fmt.Sprintf("%.1f s", u.Usage.CPUSeconds), fmt.Sprint(u.Usage.Processes), inMB(u.Usage.DiskBytes) + " MB", fmt.Sprint(u.Cells), terminal.Ago(time.Since(u.Used))})
		}
		return terminal.List(p.Out, rows, terminal.Column{Name: "ID", Whole: true}, terminal.Column{Name: "STATE"}, terminal.Column{Name: "MEMORY"}, terminal.Column{Name: "CPU", Right: true},
			terminal.Column{Name: "PROCESSES", Right: true}, terminal.Column{Name: "DISK", Right: true}, terminal.Column{Name: "CELLS", Right: true}, terminal.Column{Name: "USED"})
	})
}

func inMB(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }

// showUse prints what is known of a session, and what it uses.
func showUse(b *strings.Builder, i session.Info, u session.Usage) {
	fmt.Fprintf(b, "session %s: %s, %s\n", terminal.Visible(i.ID), terminal.Visible(i.Language), terminal.Visible(i.State))
	terminal.Fact(b, "namespace", i.Namespace)
	terminal.Fact(b, "contained by", fmt.Sprintf("%s, %s: %s", i.Backend, i.Profile, strings.Join(i.Layers, " ")))
	terminal.Fact(b, "memory", fmt.Sprintf("%s MB of %d", inMB(u.MemoryBytes), i.Limits.RAM))
	terminal.Fact(b, "CPU", fmt.Sprintf("%.1f s, on at most %s", u.CPUSeconds, cores(i.Limits.CPU)))
	terminal.Fact(b, "processes", fmt.Sprintf("%d of %d", u.Processes, i.Limits.Processes))
	terminal.Fact(b, "disk", fmt.Sprintf("%s MB of %d", inMB(u.DiskBytes), i.Limits.Disk))
	terminal.Fact(b, "a cell has", fmt.Sprintf("%g s, and %d bytes of output", i.Limits.Wall, i.Limits.Output))
	terminal.Fact(b, "cells", fmt.Sprint(i.Cells))
	terminal.Fact(b, "used", fmt.Sprintf("%s; it ends after %s without a cell", terminal.Ago(time.Since(i.Used)), spoken(i.Idle)))
	terminal.Fact(b, "began", fmt.Sprintf("%s; it ends after %s in any case", i.Created.Local().Format(time.DateTime), spoken(i.Lifetime)))
	for _, r := range i.Restarts {
		terminal.Fact(b, "variables lost", r.Time.Local().Format(time.DateTime)+": "+r.Why)
	}
}

// spoken is a number of seconds for people.
func spoken(seconds float64) string { return (time.Duration(seconds * float64(time.Second))).String() }
