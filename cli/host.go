package cli

import "github.com/urfave/cli/v2"

func (p *program) hostCommand() *cli.Command {
	return &cli.Command{
		Name:      "host",
		Usage:     "run commands and reach files of this machine that are allowed, and say which are",
		UsageText: "sandboxmcp host exec|read|write|list|copy|access ...",
		Description: `What happens here happens outside of any sandbox. It is off until the configuration has host.enabled: true.

Example: sandboxmcp host exec docker ps`,
		Subcommands: append([]*cli.Command{
			p.hostExecCommand(),
			p.hostAccessCommand(),
		}, p.hostFileCommands()...),
		Action: func(c *cli.Context) error {
			return usage("sandboxmcp host --help", "host needs to know what to do: exec, access, read, write, list or copy")
		},
	}
}
