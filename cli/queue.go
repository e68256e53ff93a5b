package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

func (p *program) queueCommand() *cli.Command {
	flags := []cli.Flag{command.JSONFlag(), serverFlag()}
	return &cli.Command{
		Name:      "queue",
		Usage:     "show what a running server runs, and what waits",
		UsageText: "sandboxmcp queue [status] [--json] [--server PID]",
		Description: `A run takes one slot, and more if it may use several cores. Namespaces take turns.

Example: sandboxmcp queue status`,
		Flags:  flags,
		Action: command.NoWords(p.queue),
		Subcommands: []*cli.Command{{
			Name:        "status",
			Usage:       "show what a running server runs, and what waits",
			UsageText:   "sandboxmcp queue status [--json] [--server PID]",
			Description: "Example: sandboxmcp queue status --json",
			Flags:       flags,
			Action:      command.NoWords(p.queue),
		}},
	}
}

// queueStatus is a queue with the runs in the background, which are in it, too.
type queueStatus struct {
	pipeline.Load
	Background int `json:"background_runs"`
}

func (p *program) queue(c *cli.Context) error {
	return asking(c, func(ctx context.Context, client *control.Client) error {
		load, err := client.Queue(ctx)
		if err != nil {
			return err
		}
		stats, err := client.Stats(ctx)
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return terminal.WriteJSON(p.Out, queueStatus{load, stats.Jobs})
		}
		fmt.Fprintf(p.Out, "%d of %s taken, %d waiting, room for %d, %s in the background\n",
			load.Running, terminal.Count(load.Slots, "slot"), load.Waiting, load.Room, terminal.Count(stats.Jobs, "run"))
		if len(load.Namespaces) == 0 {
			return nil
		}
		var rows [][]string
		for _, l := range load.Namespaces {
			rows = append(rows, []string{l.Namespace, fmt.Sprint(l.Running), fmt.Sprint(l.Waiting)})
		}
		return terminal.List(p.Out, rows, terminal.Column{Name: "NAMESPACE"}, terminal.Column{Name: "SLOTS", Right: true}, terminal.Column{Name: "WAITING", Right: true})
	})
}
