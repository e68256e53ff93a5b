package cli

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/complete"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
)

func (p *program) completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the script by which a shell completes this command line",
		UsageText: "sandboxmcp completion bash|zsh|fish",
		Description: `Put it where the shell looks for it, or source it:

  bash   source <(sandboxmcp completion bash)
         sandboxmcp completion bash > ~/.local/share/bash-completion/completions/sandboxmcp
  zsh    source <(sandboxmcp completion zsh)
         sandboxmcp completion zsh > "${fpath[1]}/_sandboxmcp"
  fish   sandboxmcp completion fish | source
         sandboxmcp completion fish > ~/.config/fish/completions/sandboxmcp.fish

Example: source <(sandboxmcp completion bash)`,
		Action: func(c *cli.Context) error {
			const hint = "sandboxmcp completion bash, zsh or fish"
			if c.NArg() != 1 {
				return exit.Usage(hint, "completion needs the name of one shell")
			}
			shell := c.Args().First()
			for _, known := range complete.Shells() {
				if shell == known {
					return complete.Write(p.Out, shell, completionOf(c.App))
				}
			}
			return exit.Usage(hint, "there is no completion for %q", shell)
		},
	}
}

// completionOf is the command tree as the scripts need it. Values that it can't know are asked for when they
// are needed, by askCommand.
func completionOf(app *cli.App) complete.Command {
	root := complete.Command{Name: app.Name, Flags: flagsOf("", app.Flags)}
	for _, c := range app.Commands {
		if !c.Hidden {
			root.Commands = append(root.Commands, commandOf("", c))
		}
	}
	return root
}

func commandOf(above string, c *cli.Command) complete.Command {
	path := strings.TrimSpace(above + " " + c.Name)
	out := complete.Command{Name: c.Name, Usage: c.Usage, Flags: flagsOf(path, c.Flags), Words: wordsOf(path, c)}
	for _, sub := range c.Subcommands {
		if !sub.Hidden {
			out.Commands = append(out.Commands, commandOf(path, sub))
		}
	}
	return out
}

func flagsOf(path string, flags []cli.Flag) (all []complete.Flag) {
	for _, f := range flags {
		d, ok := f.(cli.DocGenerationFlag)
		if !ok || f.Names()[0] == "help" {
			continue
		}
		one := complete.Flag{Names: f.Names(), Usage: strings.ReplaceAll(d.GetUsage(), "`", "")}
		if d.TakesValue() {
			one.Value = valueOf(path, f.Names()[0], d.GetUsage())
		}
		all = append(all, one)
	}
	return all
}
