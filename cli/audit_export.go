package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/export"
)

func (p *program) auditExport(c *cli.Context) error {
	if err := noWords(c); err != nil {
		return err
	}
	now := time.Now()
	filter, err := p.auditFilter(c, now)
	if err != nil {
		return err
	}
	format := c.String("format")
	about := export.About{Version: version().Version, Made: now, Scope: strings.Join(scope(filter), ", ")}
	if _, err := export.New(format, io.Discard, about); err != nil {
		return usage("--format "+strings.Join(export.Formats(), ", "), "there is no format %q to export to", format)
	}
	return withLog(c, func(ctx context.Context, log *audit.Log) error {
		return p.writeOut(c.String("out"), func(w io.Writer) error {
			buffered := bufio.NewWriterSize(w, 1<<16)
			w = buffered
			if (format == "jsonl" || format == "ocsf") && isTerminal(p.stdout) && c.String("out") == "" {
				w = screen{w}
			}
			out, err := export.New(format, w, about)
			if err != nil {
				return err
			}
			return errors.Join(writeRows(out, log.Rows(ctx, filter)), buffered.Flush())
		})
	})
}
