// Package outside implements the commands that act outside of sandboxes: on the host, and on the web.
package outside

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
)

func (p commands) hostCommand() *cli.Command {
	return &cli.Command{
		Name:      "host",
		Usage:     "run allowed commands and access allowed files of this machine",
		UsageText: "sandboxmcp host exec|read|write|list|copy|access ...",
		Description: `These commands act outside of any sandbox. They are off until the configuration has host.enabled: true.

Example: sandboxmcp host exec docker ps`,
		Subcommands: append([]*cli.Command{
			p.hostExecCommand(),
			p.hostAccessCommand(),
		}, p.hostFileCommands()...),
	}
}

// withHost calls f with a pipeline of this process. Access that is not allowed is asked for at the terminal, if there is
// one.
func (p commands) withHost(c *cli.Context, why wiring.Purpose, f func(context.Context, *pipeline.Pipeline, host.Caller) error) error {
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	var tty *console.Console // nobody is asked about disabled access
	if cfg.Host.Enabled {
		tty = console.Open()
		defer tty.Close()
	}
	why.Ask = tty != nil
	return wiring.WithParts(p.Streams, c, cfg, why, func(ctx context.Context, parts *wiring.Parts) error {
		who := host.Caller{Namespace: c.String("namespace"), Ask: tty.AskOnTerminal(parts.Approvals)}
		return f(ctx, parts.Pipeline, who)
	})
}

// Commands returns the commands of this package.
func Commands(s *command.Streams) []*cli.Command {
	p := commands{s}
	return []*cli.Command{
		p.webCommand(), p.hostCommand(),
	}
}

// commands are the actions, on the streams of an invocation.
type commands struct{ *command.Streams }
