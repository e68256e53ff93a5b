package client

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

func (p commands) queueCommand() *cli.Command {
	flags := []cli.Flag{command.JSONFlag(), ServerFlag()}
	return &cli.Command{
		Name:      "queue",
		Usage:     "show the running and queued programs of a server",
		UsageText: "sandboxmcp queue [status] [--json] [--server PID]",
		Description: `A run needs one slot, and more if it may use several cores. Identities alternate, and so do the namespaces of each.

Example: sandboxmcp queue status`,
		Flags:  flags,
		Action: command.NoWords(p.queue),
		Subcommands: []*cli.Command{{
			Name:        "status",
			Usage:       "show the running and queued programs of a server",
			UsageText:   "sandboxmcp queue status [--json] [--server PID]",
			Description: "Example: sandboxmcp queue status --json",
			Flags:       flags,
			Action:      command.NoWords(p.queue),
		}},
	}
}

// queueStatus is a queue, and the background runs that are in it.
type queueStatus struct {
	pipeline.Load
	Background int `json:"background_runs"`
}

func (p commands) queue(c *cli.Context) error {
	return WithServerHint(c, func(ctx context.Context, client *control.Client) error {
		load, err := control.Call(ctx, client, control.GetQueue, control.NoArguments{})
		if err != nil {
			return err
		}
		stats, err := control.Call(ctx, client, control.GetStats, control.NoArguments{})
		if err != nil {
			return err
		}
		return p.Print(c, queueStatus{load, stats.Jobs}, func(w io.Writer) error {
			fmt.Fprintf(w, "%d of %s taken, %d waiting, room for %d, %s in the background\n",
				load.Running, terminal.Count(load.Slots, "slot"), load.Waiting, load.Room, terminal.Count(stats.Jobs, "run"))
			t := terminal.NewTable(w, terminal.Column{Name: "NAMESPACE"}, terminal.Column{Name: "SLOTS", Right: true},
				terminal.Column{Name: "WAITING", Right: true})
			for _, l := range load.Namespaces {
				t.Row(l.Namespace, fmt.Sprint(l.Running), fmt.Sprint(l.Waiting))
			}
			return t.Close()
		})
	})
}

func (p commands) limitsCommand() *cli.Command {
	return &cli.Command{
		Name:      "limits",
		Usage:     "show or set the limits of a server's runs",
		UsageText: "sandboxmcp limits [--ram MB] [--cpu N] [--timeout S] [--processes N] [--namespace NS] [--session ID] [--json] [--server PID]",
		Description: `Without limits it shows the current ones and the caps of the configuration, which none may exceed. With limits it sets
the defaults of later runs and sessions of the namespace, until the server ends; with --session, those of the session.

Example: sandboxmcp limits --namespace my-agent --ram 1024 --timeout 120`,
		Flags: append(limitFlags(),
			&cli.StringFlag{Name: "namespace", Usage: "the `NAMESPACE`", DefaultText: serverNamespaceText},
			&cli.StringFlag{Name: "session", Aliases: []string{"id"}, Usage: "the session `ID`, or its prefix"},
			command.JSONFlag(), ServerFlag(),
		),
		Action: command.NoWords(p.limits),
	}
}

func (p commands) limits(c *cli.Context) error {
	b, err := requestedLimits(c)
	if err != nil {
		return err
	}
	return WithServerHint(c, func(ctx context.Context, client *control.Client) error {
		var l control.Limits
		var err error
		namespace := ServerNamespace(c, client)
		if c.IsSet("session") && !c.IsSet("namespace") {
			namespace = "" // the session decides
		}
		if b == (pipeline.Bounds{}) {
			l, err = control.Call(ctx, client, control.GetLimits, control.OfLimits{InNamespace: control.InNamespace{Namespace: namespace},
				Session: c.String("session")})
		} else {
			l, err = control.Call(ctx, client, control.SetLimits, control.Change{Namespace: namespace, Session: c.String("session"),
				Limits: pipeline.LimitsOf(b)})
		}
		if err != nil {
			return err
		}
		return p.Print(c, l, func(w io.Writer) error {
			who := "a run in namespace " + l.Namespace + " that asks for nothing else"
			if l.Session != "" {
				who = "session " + l.Session
			}
			fmt.Fprintf(w, "limits of %s, and their caps:\n", terminal.Visible(who))
			t := terminal.NewTable(w, terminal.Columns("LIMIT", "IN FORCE", "CAP")...)
			now, caps := l.Limits, l.Caps
			t.Row("--ram", fmt.Sprintf("%d MB", now.RAM), fmt.Sprintf("%d MB", caps.RAM))
			t.Row("--cpu", formatCores(now.CPU), formatCores(caps.CPU))
			t.Row("--timeout", fmt.Sprintf("%g s", now.Wall), fmt.Sprintf("%g s", caps.Wall))
			t.Row("--processes", fmt.Sprint(now.Processes), fmt.Sprint(caps.Processes))
			t.Row("--disk", fmt.Sprintf("%d MB", now.Disk), fmt.Sprintf("%d MB", caps.Disk))
			t.Row("--output", fmt.Sprintf("%d bytes", now.Output), fmt.Sprintf("%d bytes", caps.Output))
			return t.Close()
		})
	})
}

func formatCores(n float64) string {
	if n == 1 {
		return "1 core"
	}
	return fmt.Sprintf("%g cores", n)
}
