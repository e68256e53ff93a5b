package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

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
			jsonFlag(), serverFlag()},
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
			return writeJSON(p.stdout, list[0])
		case c.Bool("json"):
			return writeJSON(p.stdout, list)
		case id != "" && len(list) == 1:
			var b strings.Builder
			showUse(&b, list[0].Info, list[0].Usage)
			_, err := p.stdout.Write([]byte(b.String()))
			return err
		case len(list) == 0:
			fmt.Fprintln(p.stdout, "there are no sessions")
			return nil
		}
		var rows [][]string
		for _, u := range list {
			rows = append(rows, []string{u.ID, u.State, fmt.Sprintf("%s of %d MB", inMB(u.Usage.MemoryBytes), u.Limits.RAM),
				fmt.Sprintf("%.1f s", u.Usage.CPUSeconds), fmt.Sprint(u.Usage.Processes), inMB(u.Usage.DiskBytes) + " MB", fmt.Sprint(u.Cells), ago(time.Since(u.Used))})
		}
		return listing(p.stdout, rows, column{name: "ID", whole: true}, column{name: "STATE"}, column{name: "MEMORY"}, column{name: "CPU", right: true},
			column{name: "PROCESSES", right: true}, column{name: "DISK", right: true}, column{name: "CELLS", right: true}, column{name: "USED"})
	})
}

func inMB(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }

// showUse prints what is known of a session, and what it uses.
func showUse(b *strings.Builder, i session.Info, u session.Usage) {
	fmt.Fprintf(b, "session %s: %s, %s\n", visible(i.ID), visible(i.Language), visible(i.State))
	fact(b, "namespace", i.Namespace)
	fact(b, "contained by", fmt.Sprintf("%s, %s: %s", i.Backend, i.Profile, strings.Join(i.Layers, " ")))
	fact(b, "memory", fmt.Sprintf("%s MB of %d", inMB(u.MemoryBytes), i.Limits.RAM))
	fact(b, "CPU", fmt.Sprintf("%.1f s, on at most %s", u.CPUSeconds, cores(i.Limits.CPU)))
	fact(b, "processes", fmt.Sprintf("%d of %d", u.Processes, i.Limits.Processes))
	fact(b, "disk", fmt.Sprintf("%s MB of %d", inMB(u.DiskBytes), i.Limits.Disk))
	fact(b, "a cell has", fmt.Sprintf("%g s, and %d bytes of output", i.Limits.Wall, i.Limits.Output))
	fact(b, "cells", fmt.Sprint(i.Cells))
	fact(b, "used", fmt.Sprintf("%s; it ends after %s without a cell", ago(time.Since(i.Used)), spoken(i.Idle)))
	fact(b, "began", fmt.Sprintf("%s; it ends after %s in any case", i.Created.Local().Format(time.DateTime), spoken(i.Lifetime)))
	for _, r := range i.Restarts {
		fact(b, "variables lost", r.Time.Local().Format(time.DateTime)+": "+r.Why)
	}
}

// spoken is a number of seconds for people.
func spoken(seconds float64) string { return (time.Duration(seconds * float64(time.Second))).String() }
