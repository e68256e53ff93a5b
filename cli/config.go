package cli

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
)

func (p *program) configCommand() *cli.Command {
	return &cli.Command{
		Name:      "config",
		Usage:     "print the effective settings and their sources",
		UsageText: "sandboxmcp config [--json | --policy]",
		Description: `Flags override the environment, which overrides the file, which overrides the defaults.

Example: sandboxmcp --config sandboxmcp.yaml config`,
		Flags: []cli.Flag{
			command.JSONFlag(),
			&cli.BoolFlag{Name: "policy", Usage: "print only the settings that restrict runs; the SHA-256 of this text is the policy_sha256 " +
				"of receipts"},
		},
		Action: command.NoWords(wiring.WithConfig(p.printConfig)),
	}
}

func (p *program) printConfig(_ context.Context, c *cli.Context, cfg config.Config) error {
	if c.Bool("policy") {
		_, err := p.Out.Write(wiring.PolicyJSON(cfg))
		return err
	}
	return command.Table(p.Streams, c, cfg.Origins(), "", terminal.Columns("KEY", "VALUE", "FROM"), func(s config.Setting) []string {
		return []string{s.Key, s.Value, s.From}
	})
}
