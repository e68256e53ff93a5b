package machine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/image"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
)

func (p commands) imageCommand() *cli.Command {
	backend := &cli.StringFlag{Name: "backend", Usage: "`NAME` of the engine: podman or docker",
		DefaultText: "the configured one, else the first that answers"}
	return &cli.Command{
		Name:      "image",
		Usage:     "list, pull and build the images of containers",
		UsageText: "sandboxmcp image list [flags]\nsandboxmcp image pull [LANGUAGE|REFERENCE ...]\nsandboxmcp image build [LANGUAGE ...]",
		Description: `The setting images names an image for each language: sandboxmcp config shows it. Images are for the backends
podman and docker; the process backend uses the interpreters of this machine.

Example: sandboxmcp image pull python`,
		Subcommands: []*cli.Command{
			{
				Name:      "list",
				Usage:     "list the configured and the locally built images",
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
				Usage:     "pull images, or newer ones of the same name",
				UsageText: "sandboxmcp image pull [--backend NAME] [LANGUAGE|REFERENCE ...]",
				Description: `A LANGUAGE stands for its configured image; without any, all configured images are pulled.

Examples:
  sandboxmcp image pull
  sandboxmcp image pull python docker.io/library/python:3.13-slim`,
				Flags:  []cli.Flag{backend},
				Action: p.imagePull,
			},
			{
				Name:  "build",
				Usage: "build this project's own images, with the libraries that agents use",
				UsageText: "sandboxmcp image build [--backend NAME] [LANGUAGE ...]\nsandboxmcp image build [--backend NAME | --output FILE] [--name " +
					"REFERENCE] server",
				Description: `Without a LANGUAGE, all are built: python (numpy, pandas, scipy, matplotlib, scikit-learn and more), node
(TypeScript and more), shell and r. The engine pulls their base images from its registries.

The image server has only this program and certificates, without a shell or packages, and a user other than root. It is
for servers in a cluster, and for the setting kubernetes.image. An archive needs no engine; nodes, engines and registry tools load it
(docker load, ctr images import, skopeo copy docker-archive:FILE).

Examples:
  sandboxmcp image build python
  sandboxmcp image build --output server.tar --name registry.example.com/sandboxmcp:1 server`,
				Flags: []cli.Flag{backend,
					&cli.StringFlag{Name: "output", Usage: "write the image server to `FILE` in the format of docker save, without an engine"},
					&cli.StringFlag{Name: "name", Usage: "`REFERENCE` of the image server", DefaultText: "sandboxmcp/server:latest"}},
				Action: p.imageBuild,
			},
		},
	}
}

// withEngine calls f with the engine in the command line, or else the configured backend if it is an engine, or else
// the first that answers.
func withEngine(c *cli.Context, f func(context.Context, container.Engine, config.Config) error) error {
	names, cfg, err := selectedEngines(c)
	if err != nil {
		return err
	}
	ctx, cancel := command.Interruptible(c.Context)
	defer cancel(nil)
	var why error
	for _, name := range names {
		engine := wiring.Engine(name, cfg)
		err := checkEngine(ctx, engine)
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

// noEngine returns the error if none of several engines answers.
func noEngine(why error) error {
	reason, remedy := exit.Reason(why)
	return exit.Fail(cmp.Or(remedy, "sandboxmcp doctor"), "neither podman nor docker answers: %s", reason)
}

func checkEngine(ctx context.Context, engine container.Engine) error {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	_, err := engine.Info(ctx)
	return err
}

// selectedEngines returns the engines that the command applies to; the first that answers is used.
func selectedEngines(c *cli.Context) ([]string, config.Config, error) {
	cfg, err := wiring.Load(c)
	if err != nil {
		return nil, cfg, err
	}
	switch name := c.String("backend"); {
	case slices.Contains(wiring.EngineNames(), name):
		return []string{name}, cfg, nil
	case c.IsSet("backend"):
		return nil, cfg, exit.Usage("--backend podman, or --backend docker", "%q is not a container engine", terminal.Visible(name))
	case slices.Contains(wiring.EngineNames(), cfg.Backend) && c.Command.Name != "list":
		return []string{cfg.Backend}, cfg, nil
	}
	return wiring.EngineNames(), cfg, nil
}

// printProgress prints a line of a slow operation, escaped.
func (p commands) printProgress(line string) {
	fmt.Fprintln(p.Err, terminal.Visible(line)) // a failure is harmless
}

func (p commands) imagePull(c *cli.Context) error {
	for _, word := range c.Args().Slice() {
		if err := config.CheckImage(word); err != nil {
			return exit.Usage("sandboxmcp image pull python", "%v", err)
		}
	}
	return withEngine(c, func(ctx context.Context, engine container.Engine, cfg config.Config) error {
		words := c.Args().Slice()
		if len(words) == 0 {
			words = config.Languages()
		}
		return p.forEachWord(words, func(word string) error {
			reference := word
			if slices.Contains(config.Languages(), word) {
				reference = cfg.Images.ForLanguage(word)
			}
			if err := engine.Pull(ctx, reference, p.printProgress); err != nil {
				return withLogin(engine.Name(), reference, err)
			}
			got, err := engine.Image(ctx, reference)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Out, "%s has %s, %s, %s\n", engine.Name(), terminal.Visible(reference), formatMB(got.Size),
				terminal.Visible(imageIdentity(got)))
			return err
		})
	})
}

// withLogin adds a hint to log in to the error of a pull if the registry asks for it. Many registries do so for missing
// images, too.
func withLogin(engine, reference string, err error) error {
	says := func(word string) bool { return strings.Contains(strings.ToLower(err.Error()), word) }
	if !slices.ContainsFunc([]string{"unauthorized", "denied", "authentication required", "no basic auth credentials"}, says) {
		return err
	}
	host, _, named := strings.Cut(reference, "/")
	if !named || !strings.ContainsAny(host, ".:") {
		host = "docker.io"
	}
	return exit.Fail(engine+" login "+host+", if there is such an image", "%v", err)
}

// imageIdentity returns an image's digest, or its id if it comes from no registry. It omits the repository: engines name any
// one of several.
func imageIdentity(i container.Image) string {
	if _, sum, ok := strings.Cut(i.Digest, "@"); ok {
		return sum
	}
	return i.ID
}

func (p commands) imageBuild(c *cli.Context) error {
	languages := c.Args().Slice()
	switch server := slices.Equal(languages, []string{serverImage}); {
	case server:
		return p.buildServer(c)
	case c.IsSet("output") || c.IsSet("name"):
		return exit.Usage("sandboxmcp image build --output server.tar server", "--output and --name need the image server")
	}
	if len(languages) == 0 {
		languages = backends.Languages
	}
	for _, l := range languages {
		if !slices.Contains(backends.Languages, l) {
			return exit.Usage("sandboxmcp image build python", "no image for %q: build python, node, shell or r, or server by itself",
				terminal.Visible(l))
		}
	}
	return withEngine(c, func(ctx context.Context, engine container.Engine, cfg config.Config) error {
		return p.forEachWord(languages, func(language string) error { return p.build(ctx, engine, cfg, language) })
	})
}

func (p commands) build(ctx context.Context, engine container.Engine, cfg config.Config, language string) error {
	archive, err := image.Archive(language)
	if err != nil {
		return err
	}
	name := image.Name(engine.Name(), language)
	labels := map[string]string{container.LabelImage: language}
	if err := engine.Build(ctx, name, bytes.NewReader(archive), labels, p.printProgress); err != nil {
		return err
	}
	built, err := engine.Image(ctx, name)
	if err != nil {
		return err
	}
	use := fmt.Sprintf("use it with, in the configuration, images: {%s: %q}", language, name)
	if cfg.Images.ForLanguage(language) == name {
		use = "runs with --backend " + engine.Name() + " use it"
	}
	_, err = fmt.Fprintf(p.Out, "%s has built %s, %s\n%s\n", engine.Name(), name, formatMB(built.Size), use)
	return err
}

// forEachWord calls f for all words, even if some fail. A single error is returned as it is.
func (p commands) forEachWord(words []string, f func(word string) error) error {
	failed := 0
	for _, word := range words {
		err := f(word)
		if err != nil && len(words) == 1 {
			return err
		}
		if err != nil {
			failed++
			p.Exit(err) // prints it
		}
	}
	if failed > 0 {
		return exit.Silent(exit.Failed)
	}
	return nil
}

func (p commands) imageList(c *cli.Context) error {
	names, cfg, err := selectedEngines(c)
	if err != nil {
		return err
	}
	ctx, cancel := command.Interruptible(c.Context)
	defer cancel(nil)
	all := surveyEngines(ctx, cfg, names)
	err = p.Print(c, all, func(w io.Writer) error { return writeImages(w, all, time.Now()) })
	switch {
	case err != nil, slices.ContainsFunc(all, func(s engineSurvey) bool { return s.Answers }):
		return err
	case c.Bool("json"):
		return exit.Silent(exit.Failed) // the list has the errors
	case len(all) == 1:
		return all[0].err
	}
	return noEngine(all[0].err)
}

// writeImages prints a line for each image of each engine that answers, and then one for each engine that does not. If
// none answers, it returns an error.
func writeImages(w io.Writer, all []engineSurvey, now time.Time) error {
	columns := terminal.Columns("ENGINE", "LANGUAGE", "IMAGE", "THERE", "SIZE", "MADE", "DIGEST")
	columns[4].Right = true
	t := terminal.NewTable(w, columns...)
	var silent []string
	for _, s := range all {
		if !s.Answers {
			silent = append(silent, s.Engine+" can't be asked: "+s.Why)
		}
		for _, i := range s.Images {
			t.Row(append([]string{s.Engine, i.Language, i.Reference}, i.cells(now)...)...)
		}
	}
	if err := t.Close(); err != nil || len(silent) == len(all) {
		return err
	}
	for _, line := range silent {
		if _, err := fmt.Fprintln(w, terminal.Visible(line)); err != nil {
			return err
		}
	}
	return nil
}

// cells returns the columns of an image in a list.
func (i imageState) cells(now time.Time) []string {
	switch {
	case i.Why != "":
		return []string{"?", "-", "-", i.Why}
	case !i.There:
		return []string{"no", "-", "-", "-"}
	}
	there, digest := "yes", "-" // an image that was built here has none
	if !i.Configured {
		there = "yes, unused"
	}
	if _, sum, ok := strings.Cut(i.Digest, "@"); ok {
		digest = sum
	}
	return []string{there, formatMB(i.Size), terminal.Ago(now.Sub(i.Created)), digest}
}

// formatMB formats a number of bytes in MB, as engines do.
func formatMB(size int64) string { return fmt.Sprintf("%.0f MB", float64(max(size, 0))/1e6) }
