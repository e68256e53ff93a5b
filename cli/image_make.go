package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/container/image"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

// progress shows a person how something goes on that takes its time: each line as it is, also on a terminal.
func (p *program) progress(line string) {
	fmt.Fprintln(p.Err, terminal.Visible(line)) // nothing depends on that anybody reads it
}

func (p *program) imagePull(c *cli.Context) error {
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
		return p.each(words, func(word string) error {
			reference := word
			if slices.Contains(config.Languages(), word) {
				reference = cfg.Images.Of(word)
			}
			if err := engine.Pull(ctx, reference, p.progress); err != nil {
				return withLogin(engine.Name(), reference, err)
			}
			got, err := engine.Image(ctx, reference)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Out, "%s has %s, %s, %s\n", engine.Name(), terminal.Visible(reference), megas(got.Size), terminal.Visible(identity(got)))
			return err
		})
	})
}

// withLogin adds to an error of a pull that somebody may have to log in, where a registry says as much. Many say so
// of what does not exist, too.
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

// identity is what no other image has: its digest, or its id where it comes from no registry. Where it comes from is
// left out: engines name any one of several places.
func identity(i container.Image) string {
	if _, sum, ok := strings.Cut(i.Digest, "@"); ok {
		return sum
	}
	return i.ID
}

func (p *program) imageBuild(c *cli.Context) error {
	languages, err := languagesMeant(c)
	if err != nil {
		return err
	}
	return withEngine(c, func(ctx context.Context, engine container.Engine, cfg config.Config) error {
		return p.each(languages, func(language string) error { return p.build(ctx, engine, cfg, language) })
	})
}

func (p *program) build(ctx context.Context, engine container.Engine, cfg config.Config, language string) error {
	archive, err := image.Archive(language)
	if err != nil {
		return err
	}
	name := image.Name(engine.Name(), language)
	labels := map[string]string{container.LabelImage: language}
	if err := engine.Build(ctx, name, bytes.NewReader(archive), labels, p.progress); err != nil {
		return err
	}
	built, err := engine.Image(ctx, name)
	if err != nil {
		return err
	}
	use := fmt.Sprintf("use it with, in the configuration, images: {%s: %q}", language, name)
	if cfg.Images.Of(language) == name {
		use = "runs with --backend " + engine.Name() + " use it"
	}
	_, err = fmt.Fprintf(p.Out, "%s has built %s, %s\n%s\n", engine.Name(), name, megas(built.Size), use)
	return err
}

// each does f for all words, also when it fails for some. A single failure is the command's.
func (p *program) each(words []string, f func(word string) error) error {
	failed := 0
	for _, word := range words {
		err := f(word)
		if err != nil && len(words) == 1 {
			return err
		}
		if err != nil {
			failed++
			p.Exit(err) // says it
		}
	}
	if failed > 0 {
		return exit.Silent(exit.Failed)
	}
	return nil
}
