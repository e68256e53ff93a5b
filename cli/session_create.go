package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// configuredThere is where a server's limits come from that the command line does not name.
const configuredThere = "see sandboxmcp limits"

// serversNamespace is where a namespace comes from that the command line does not name.
const serversNamespace = `the server's, or "default"`

func limitFlags() []cli.Flag {
	return []cli.Flag{
		&cli.Int64Flag{Name: "ram", Usage: "`MB` of memory for all processes together", DefaultText: configuredThere},
		&cli.Float64Flag{Name: "cpu", Usage: "`CORES`", DefaultText: configuredThere},
		&cli.Float64Flag{Name: "timeout", Usage: "`SECONDS` that one run or one cell may take", DefaultText: configuredThere},
		&cli.IntFlag{Name: "processes", Usage: "`N` processes and threads, on top of what the interpreter needs", DefaultText: configuredThere},
		&cli.Int64Flag{Name: "disk", Usage: "`MB` for /workspace, /tmp and /dev/shm together", DefaultText: configuredThere},
		&cli.Int64Flag{Name: "output", Usage: "`BYTES` of stdout, and as many of stderr, that are kept", DefaultText: configuredThere},
	}
}

// requestedLimits are those that the command line names, and zero what it does not.
func requestedLimits(c *cli.Context) (b pipeline.Bounds, err error) {
	var l backends.Limits
	err = limits(c, &l)
	return pipeline.Bounds{Limits: l, Output: c.Int64("output")}, err
}

func (p *program) sessionCreateCommand() *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "start a session, and print its id",
		UsageText: "sandboxmcp session create [--language LANGUAGE] [--namespace NS] [--allow DOMAIN] [--json] [--server PID] ...",
		Description: `It prints the id alone. The session ends with session kill, with the server, or when it is idle or old.

Example: sandboxmcp session create --language python --namespace my-agent --ram 1024`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "language", Usage: "`LANGUAGE`: python, node, shell or r", Value: "python"},
			&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` that it belongs to", DefaultText: serversNamespace},
			&cli.StringFlag{Name: "backend", Usage: "`NAME` of what contains it: process, podman or docker", DefaultText: "the server's"},
			&cli.StringFlag{Name: "profile", Usage: "`NAME` of the containment profile", DefaultText: "the server's"},
			&cli.StringSliceFlag{Name: "allow", Usage: "let its cells connect to `DOMAIN[:PORT]`, where the configuration or a person allows it, and to nothing else"},
			&cli.BoolFlag{Name: "no-network", Usage: "let them connect to nothing, whatever the configuration allows"},
			&cli.Float64Flag{Name: "idle", Usage: "end it after `SECONDS` without a cell", DefaultText: "the server's"},
			&cli.Float64Flag{Name: "lifetime", Usage: "end it after `SECONDS` in any case", DefaultText: "the server's"},
			command.JSONFlag(), serverFlag(),
		}, limitFlags()...),
		Action: command.NoWords(p.sessionCreate),
	}
}

func (p *program) sessionCreate(c *cli.Context) error {
	if c.Bool("no-network") && c.IsSet("allow") {
		return exit.Usage("leave one of them out", "--no-network and --allow contradict each other")
	}
	for _, name := range []string{"idle", "lifetime"} {
		if c.IsSet(name) && !positive(c, name) {
			return exit.Usage("leave it out for the default", "--%s must be more than 0", name)
		}
	}
	b, err := requestedLimits(c)
	if err != nil {
		return err
	}
	w := control.NewSession{
		Language: c.String("language"), Backend: c.String("backend"), Profile: c.String("profile"),
		Allow: c.StringSlice("allow"), NoNetwork: c.Bool("no-network"), Limits: pipeline.LimitsOf(b),
		Idle: c.Float64("idle"), Lifetime: c.Float64("lifetime"),
	}
	return asking(c, func(ctx context.Context, client *control.Client) error {
		w.Namespace = ofServer(c, client)
		info, err := client.Create(ctx, w)
		switch {
		case err != nil:
			return err
		case c.Bool("json"):
			return terminal.WriteJSON(p.Out, info)
		}
		fmt.Fprintln(p.Out, terminal.Visible(info.ID))
		if terminal.IsTerminal(p.Err) {
			p.Say("%s session in namespace %s; sandboxmcp session attach %s", info.Language, info.Namespace, info.ID)
		}
		return nil
	})
}
