package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

func (p *program) hostRead(c *cli.Context) error {
	path, err := onlyPath(c)
	if err != nil {
		return err
	}
	if c.Int64("offset") < 0 || c.Int64("max-bytes") < 0 {
		return usage("leave it out for all of the file", "--offset and --max-bytes must not be negative")
	}
	return p.onHost(c, purpose{}, func(ctx context.Context, l *pipeline.Pipeline, who pipeline.HostCaller) error {
		got, err := l.ReadHostFile(ctx, pipeline.HostRead{HostCaller: who, Path: path, Offset: c.Int64("offset"), Max: c.Int64("max-bytes")})
		switch {
		case err != nil:
			return err
		case c.Bool("json"):
			return writeJSON(p.stdout, hostContentOf(got))
		case c.String("out") != "" || !isTerminal(p.stdout):
			return p.writeOut(c.String("out"), func(w io.Writer) error { _, err := w.Write(got.Content); return err })
		case !got.Text:
			return fail("--out FILE, or a pipe", "%s is not text", path)
		}
		for line := range strings.Lines(string(got.Content)) {
			if _, err := fmt.Fprintln(p.stdout, visible(strings.TrimSuffix(line, "\n"))); err != nil {
				return err
			}
		}
		return nil
	})
}

// hostContent is a part of a file, as JSON shows it.
type hostContent struct {
	Run    string `json:"run"`
	Path   string `json:"path"`
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
	Total  int64  `json:"total_bytes"`
	Next   int64  `json:"next_offset,omitempty"`
	SHA256 string `json:"sha256"`
}

func hostContentOf(got pipeline.HostContent) hostContent {
	f := hostContent{Run: got.ID, Path: got.Path, Total: got.Total, Next: got.Next, SHA256: got.SHA256}
	if got.Text && utf8.Valid(got.Content) {
		f.Text = string(got.Content)
	} else {
		f.Base64 = got.Content
	}
	return f
}
