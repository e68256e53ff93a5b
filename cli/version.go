package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
)

func (p *program) versionCommand() *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print which version this is",
		UsageText:   "sandboxmcp version [--json]",
		Description: "Example: sandboxmcp version",
		Flags:       []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			if err := noWords(c); err != nil {
				return err
			}
			v := version.Current()
			if c.Bool("json") {
				return terminal.WriteJSON(p.stdout, v)
			}
			_, err := fmt.Fprintln(p.stdout, v)
			return err
		},
	}
}

// noWords refuses words that the command has no use for.
func noWords(c *cli.Context) error {
	if c.NArg() == 0 {
		return nil
	}
	return exit.Usage(c.Command.HelpName+" --help", "%s has no use for %q", c.Command.Name, c.Args().First())
}
