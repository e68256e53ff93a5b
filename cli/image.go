package cli

import (
	"context"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

func (p *program) imageCommand() *cli.Command {
	backend := &cli.StringFlag{Name: "backend", Usage: "`NAME` of the engine: podman or docker", DefaultText: "the configured one, else the first that answers"}
	return &cli.Command{
		Name:      "image",
		Usage:     "list, fetch and build the images that containers are made from",
		UsageText: "sandboxmcp image list [flags]\nsandboxmcp image pull [LANGUAGE|REFERENCE ...]\nsandboxmcp image build [LANGUAGE ...]",
		Description: `Each language has an image, which the setting images names: sandboxmcp config shows it. They are for the
backends podman and docker; the backend process uses what is installed on this machine.

Example: sandboxmcp image pull python`,
		Subcommands: []*cli.Command{
			{
				Name:      "list",
				Usage:     "list each language's image, and those that were built here",
				UsageText: "sandboxmcp image list [--backend NAME] [--json]",
				Description: `Without --backend it asks all engines. The exit code is 1 if none answers.

Example: sandboxmcp image list`,
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "backend", Usage: "`NAME` of the engine: podman or docker", DefaultText: "both"},
					command.JSONFlag(),
				},
				Action: command.NoWords(p.imageList),
			},
			{
				Name:      "pull",
				Usage:     "fetch images, also newer ones of the same name",
				UsageText: "sandboxmcp image pull [--backend NAME] [LANGUAGE|REFERENCE ...]",
				Description: `A LANGUAGE stands for the image that is configured for it; without any, all of them are fetched.

Examples:
  sandboxmcp image pull
  sandboxmcp image pull python docker.io/library/python:3.13-slim`,
				Flags:  []cli.Flag{backend},
				Action: p.imagePull,
			},
			{
				Name:      "build",
				Usage:     "build this project's own images, with the libraries that agents use",
				UsageText: "sandboxmcp image build [--backend NAME] [LANGUAGE ...]",
				Description: `Without a LANGUAGE, all are built: python (numpy, pandas, scipy, matplotlib, scikit-learn and more), node
(TypeScript and more), shell and r. The engine fetches what they are made of from its registries.

Example: sandboxmcp image build python`,
				Flags:  []cli.Flag{backend},
				Action: p.imageBuild,
			},
		},
	}
}

// withEngine calls f with the engine that the command line names; else the configured one, if it is an
// engine; else the first that answers.
func withEngine(c *cli.Context, f func(context.Context, container.Engine, config.Config) error) error {
	names, cfg, err := enginesMeant(c)
	if err != nil {
		return err
	}
	ctx, cancel := command.Interruptible(c.Context)
	defer cancel(nil)
	var why error
	for _, name := range names {
		engine := engineOf(name, cfg)
		err := answers(ctx, engine)
		if err == nil {
			defer engine.Close()
			return f(ctx, engine, cfg)
		}
		engine.Close()
		if why == nil {
			why = err
		}
	}
	if len(names) == 1 {
		return why
	}
	return noEngine(why)
}

// noEngine is the error where none of several engines answers.
func noEngine(why error) error {
	reason, remedy := because(why)
	if remedy == "" {
		remedy = "sandboxmcp doctor"
	}
	return exit.Fail(remedy, "neither podman nor docker answers: %s", reason)
}

func answers(ctx context.Context, engine container.Engine) error {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	_, err := engine.Info(ctx)
	return err
}

// enginesMeant are the engines that the command is about, the first that answers to be taken.
func enginesMeant(c *cli.Context) ([]string, config.Config, error) {
	cfg, err := load(c)
	if err != nil {
		return nil, cfg, err
	}
	switch name := c.String("backend"); {
	case slices.Contains(engineNames(), name):
		return []string{name}, cfg, nil
	case c.IsSet("backend"):
		return nil, cfg, exit.Usage("--backend podman, or --backend docker", "%q is no container engine, and only those have images", terminal.Visible(name))
	case slices.Contains(engineNames(), cfg.Backend) && c.Command.Name != "list":
		return []string{cfg.Backend}, cfg, nil
	}
	return engineNames(), cfg, nil
}

// languagesMeant are those that the command line names, or all.
func languagesMeant(c *cli.Context) ([]string, error) {
	if c.NArg() == 0 {
		return backends.Languages, nil
	}
	for _, l := range c.Args().Slice() {
		if !slices.Contains(backends.Languages, l) {
			return nil, exit.Usage("sandboxmcp image build python", "there is no image of ours for %q: there are python, node, shell and r", terminal.Visible(l))
		}
	}
	return c.Args().Slice(), nil
}
