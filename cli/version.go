package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
)

func (p *program) versionCommand() *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print the version",
		UsageText:   "sandboxmcp version [--json]",
		Description: "Example: sandboxmcp version",
		Flags:       []cli.Flag{command.JSONFlag()},
		Action: command.NoWords(func(c *cli.Context) error {
			return p.Printf(c, version.Current(), "%v\n", version.Current())
		}),
	}
}
