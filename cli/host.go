package cli

import "github.com/urfave/cli/v2"

func (p *program) hostCommand() *cli.Command {
	return &cli.Command{
		Name:      "host",
		Usage:     "run commands of this machine and reach its files, as far as that is allowed, and say what is",
		UsageText: "sandboxmcp host exec|access|read|write|list|copy ...",
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
