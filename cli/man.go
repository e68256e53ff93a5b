package cli

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/manual"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
)

func (p *program) manCommand() *cli.Command {
	return &cli.Command{
		Name:      "man",
		Usage:     "print the manual page of all commands and settings",
		UsageText: "sandboxmcp man",
		Description: `Read it with man, or install it where man finds it:

  sandboxmcp man | man -l -
  sandboxmcp man > ~/.local/share/man/man1/sandboxmcp.1

Example: sandboxmcp man`,
		Action: command.NoWords(func(c *cli.Context) error {
			return manual.Write(p.Out, manual.Page{
				Name: c.App.Name, About: c.App.Usage, Source: c.App.Name + " " + version.Current().Version,
				Sections: append(append(manualHead(c.App), commandSections(c.App)...), settingSections()...),
			})
		}),
	}
}

func manualHead(app *cli.App) []manual.Section {
	synopsis, _, _ := strings.Cut(app.UsageText, "\n")
	return []manual.Section{
		{Title: "SYNOPSIS", Synopsis: synopsis},
		{Title: "DESCRIPTION", Text: app.Description},
		{Title: "OPTIONS", Terms: flagTerms(app.Flags)},
	}
}

// commandSections describes each command in the help, with its subcommands.
func commandSections(app *cli.App) []manual.Section {
	all := []manual.Section{{Title: "COMMANDS"}}
	var down func(above string, commands []*cli.Command)
	down = func(above string, commands []*cli.Command) {
		for _, c := range commands {
			if c.Hidden {
				continue
			}
			path := strings.TrimSpace(above + " " + c.Name)
			about := strings.ToUpper(c.Usage[:1]) + c.Usage[1:] + ".\n\n"
			all = append(all, manual.Section{Title: path, Sub: true, Synopsis: c.UsageText, Text: about + c.Description, Terms: flagTerms(c.Flags)})
			down(path, c.Subcommands)
		}
	}
	down("", app.Commands)
	return all
}

func flagTerms(flags []cli.Flag) (all []manual.Term) {
	for _, f := range flags {
		if v, can := f.(cli.VisibleFlag); f.Names()[0] == "help" || can && !v.IsVisible() {
			continue
		}
		names, meaning, _ := strings.Cut(f.String(), "\t")
		names, _, repeated := strings.Cut(names, " [ ") // urfave/cli's mark for a flag that may be repeated
		if repeated {
			names += " ..."
		}
		all = append(all, manual.Term{Word: names, Meaning: meaning})
	}
	return all
}

// settingSections describes the configuration.
func settingSections() []manual.Section {
	var settings, variables []manual.Term
	for _, e := range config.Reference() {
		settings = append(settings, manual.Term{Word: e.Key, Meaning: e.About + ". Takes " + e.Takes + "; default: " + e.Default + "."})
		if e.Env != "" {
			variables = append(variables, manual.Term{Word: e.Env, Meaning: e.Key})
		}
	}
	return []manual.Section{
		{Title: "SETTINGS", Text: "Keys of the configuration file, which is YAML. Flags override the environment, which overrides the file, " +
			"which overrides the defaults.", Terms: settings},
		{Title: "ENVIRONMENT", Terms: append(variables, manual.Term{Word: "SANDBOXMCP_SECRET_NAMESPACE_NAME",
			Meaning: "a secret of the vault's store environment"},
			manual.Term{Word: "SANDBOXMCP_TOKEN", Meaning: "a person's token for the server that --server names by its URL"})},
		{Title: "FILES", Terms: []manual.Term{
			{Word: "~/.config/sandboxmcp/config.yaml", Meaning: "the configuration, below $XDG_CONFIG_HOME where that is set"},
			{Word: "~/.local/state/sandboxmcp", Meaning: "log, keys, vault and kept results, below $XDG_STATE_HOME where that is set"},
		}},
	}
}
