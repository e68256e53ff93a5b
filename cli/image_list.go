package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

// engineListing is one engine's part of the list, as JSON shows it.
type engineListing struct {
	Engine  string         `json:"engine"`
	Answers bool           `json:"answers"`
	Why     string         `json:"why,omitempty"` // it does not
	Remedy  string         `json:"remedy,omitempty"`
	Images  []imageListing `json:"images"`
}

type imageListing struct {
	Language   string    `json:"language"`
	Reference  string    `json:"reference"`
	Configured bool      `json:"configured"` // runs of the language are made from it
	There      bool      `json:"there"`
	Why        string    `json:"why,omitempty"` // it can't be said
	ID         string    `json:"id,omitempty"`
	Digest     string    `json:"digest,omitempty"` // "" of one that was built here
	Size       int64     `json:"size_bytes,omitempty"`
	Created    time.Time `json:"created,omitzero"`
}

func (p *program) imageList(c *cli.Context) error {
	names, cfg, err := enginesMeant(c)
	if err != nil {
		return err
	}
	ctx, cancel := command.Interruptible(c.Context)
	defer cancel(nil)
	all := survey(ctx, cfg, names)
	if c.Bool("json") {
		list := []engineListing{}
		for _, s := range all {
			list = append(list, s.listing())
		}
		err = terminal.WriteJSON(p.Out, list)
	} else {
		err = showImages(p.Out, all, time.Now())
	}
	for _, s := range all {
		if s.err == nil {
			return err
		}
	}
	switch {
	case err != nil:
		return err
	case c.Bool("json"):
		return exit.Silent(exit.Failed) // the list says it
	case len(all) == 1:
		return all[0].err
	}
	return noEngine(all[0].err)
}

func (s surveyed) listing() engineListing {
	l := engineListing{Engine: s.name, Answers: s.err == nil, Images: []imageListing{}}
	if s.err != nil {
		l.Why, l.Remedy = because(s.err)
	}
	for _, i := range s.images {
		one := imageListing{Language: i.language, Reference: i.reference, Configured: i.configured, There: i.err == nil,
			ID: i.ID, Digest: i.Digest, Size: i.Size, Created: i.Created}
		if i.err != nil && !errors.Is(i.err, container.ErrNoImage) {
			one.Why, _ = because(i.err)
		}
		l.Images = append(l.Images, one)
	}
	return l
}

// showImages prints a line for each image of each engine that answers, and then one for each that does
// not, unless none does: that is an error, which says it.
func showImages(w io.Writer, all []surveyed, now time.Time) error {
	columns := terminal.Columns("ENGINE", "LANGUAGE", "IMAGE", "THERE", "SIZE", "MADE", "DIGEST")
	columns[4].Right = true
	t := terminal.NewTable(w, columns...)
	var silent []string
	for _, s := range all {
		if s.err != nil {
			reason, _ := because(s.err)
			silent = append(silent, s.name+" can't be asked: "+reason)
			continue
		}
		for _, i := range s.images {
			if err := t.Row(append([]string{s.name, i.language, i.reference}, i.cells(now)...)...); err != nil {
				return err
			}
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

// cells are what a list says of the image itself.
func (i surveyedImage) cells(now time.Time) []string {
	if errors.Is(i.err, container.ErrNoImage) {
		return []string{"no", "-", "-", "-"}
	}
	if i.err != nil {
		reason, _ := because(i.err)
		return []string{"?", "-", "-", reason}
	}
	there, digest := "yes", "-" // what was built here has none
	if !i.configured {
		there = "yes, unused"
	}
	if _, sum, ok := strings.Cut(i.Digest, "@"); ok {
		digest = sum
	}
	return []string{there, megas(i.Size), ago(now.Sub(i.Created)), digest}
}

// megas is a number of bytes as people say it of images.
func megas(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(max(bytes, 0))/1e6) }
