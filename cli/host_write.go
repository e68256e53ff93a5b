package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

func (p *program) hostWrite(c *cli.Context) error {
	args, err := words(c, 1, 2)
	if err != nil {
		return err
	}
	path, err := onDisk(args[0])
	if err != nil {
		return err
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	from := "-"
	if len(args) == 2 {
		from = args[1]
	}
	in, err := p.Open(from)
	if err != nil {
		return exit.Fail("", "%v", err)
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, cfg.Host.MaxFileMB<<20+1))
	if err != nil {
		return exit.Fail("", "read %s: %v", from, err)
	}
	return p.onHost(c, wiring.Purpose{}, func(ctx context.Context, l *pipeline.Pipeline, who pipeline.HostCaller) error {
		w, err := l.WriteHostFile(ctx, pipeline.HostWrite{HostCaller: who, Path: path, Content: content, Mode: c.String("mode")})
		return p.showWritten(c, w, "wrote", err)
	})
}

// hostWritten is a file that was written, as JSON shows it.
type hostWritten struct {
	Run    string   `json:"run"`
	Path   string   `json:"path"`
	Size   int64    `json:"size_bytes"`
	SHA256 string   `json:"sha256,omitempty"`
	Notes  []string `json:"notes,omitempty"`
}

func (p *program) showWritten(c *cli.Context, w pipeline.HostWritten, did string, err error) error {
	if err != nil {
		return err
	}
	return p.showFile(c, hostWritten{w.ID, w.Path, w.Size, w.SHA256, w.Notes}, did)
}

func (p *program) showFile(c *cli.Context, w hostWritten, did string) error {
	if c.Bool("json") {
		return terminal.WriteJSON(p.Out, w)
	}
	for _, n := range w.Notes {
		p.Say("note: %s", n)
	}
	hash := ""
	if w.SHA256 != "" {
		hash = ", SHA-256 " + w.SHA256
	}
	_, err := fmt.Fprintf(p.Out, "%s %s: %s%s\n", did, terminal.Visible(w.Path), terminal.Count(int(w.Size), "byte"), hash)
	return err
}
