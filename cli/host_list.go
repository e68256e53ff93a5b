package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

func (p *program) hostList(c *cli.Context) error {
	path, err := onlyPath(c)
	if err != nil {
		return err
	}
	if c.Int("limit") < 1 {
		return exit.Usage("leave it out for 1000", "--limit must be more than 0")
	}
	return p.onHost(c, wiring.Purpose{}, func(ctx context.Context, l *pipeline.Pipeline, who pipeline.HostCaller) error {
		got, err := l.ListHostDirectory(ctx, pipeline.HostList{HostCaller: who, Path: path, Recursive: c.Bool("recursive"), Limit: c.Int("limit")})
		if err != nil {
			return err
		}
		return p.showDir(c, got)
	})
}

type hostEntry struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
	Size int64  `json:"size_bytes"`
}

func (p *program) showDir(c *cli.Context, l pipeline.HostListing) error {
	all := []hostEntry{}
	for _, e := range l.Entries {
		all = append(all, hostEntry(e))
	}
	if c.Bool("json") {
		return terminal.WriteJSON(p.Out, struct {
			Run     string      `json:"run"`
			Entries []hostEntry `json:"entries"`
			More    bool        `json:"more"`
		}{l.ID, all, l.More})
	}
	t := terminal.NewTable(p.Out, terminal.Column{Name: "KIND"}, terminal.Column{Name: "BYTES", Right: true}, terminal.Column{Name: "PATH", Whole: true})
	for _, e := range all {
		if err := t.Row(e.Kind, fmt.Sprint(e.Size), e.Path); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	if l.More {
		p.Say("there are more: --limit %d shows twice as many", 2*c.Int("limit"))
	}
	return nil
}
