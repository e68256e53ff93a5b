package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/export"
	auditreport "github.com/sandboxmcp/sandboxmcp/audit/report"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
)

func (p *program) auditExport(c *cli.Context) error {
	now := time.Now()
	filter, err := p.auditFilter(c, now)
	if err != nil {
		return err
	}
	format := c.String("format")
	about := export.About{Version: version.Current().Version, Made: now, Scope: strings.Join(scope(filter), ", ")}
	if _, err := export.New(format, io.Discard, about); err != nil {
		return exit.Usage("--format "+strings.Join(export.Formats(), ", "), "there is no format %q to export to", format)
	}
	return withLog(c, func(ctx context.Context, log *audit.Log) error {
		return p.WriteOut(c.String("out"), func(w io.Writer) error {
			buffered := bufio.NewWriterSize(w, 1<<16)
			w = buffered
			if (format == "jsonl" || format == "ocsf") && terminal.IsTerminal(p.Out) && c.String("out") == "" {
				w = terminal.JSONLines{W: w}
			}
			out, err := export.New(format, w, about)
			if err != nil {
				return err
			}
			return errors.Join(writeRows(out, log.Rows(ctx, filter)), buffered.Flush())
		})
	})
}

func (p *program) auditReport(c *cli.Context) error {
	now := time.Now()
	filter, err := p.auditFilter(c, now)
	if err != nil {
		return err
	}
	cfg, err := load(c)
	if err != nil {
		return err
	}
	trust, err := p.trusted(c)
	if err != nil {
		return err
	}
	machine, _ := os.Hostname()
	about := auditreport.About{Version: version.Current().Version, Made: now, Organisation: c.String("organisation"), Machine: machine,
		Since: filter.Since, Until: filter.Until, Scope: scope(filter), Log: auditreport.Log{Path: cfg.SQLitePath}}
	for _, k := range trust.Keys() {
		about.Log.Keys = append(about.Log.Keys, k.ID())
	}
	return withLog(c, func(ctx context.Context, log *audit.Log) error {
		if !c.Bool("no-verify") {
			keys, err := p.logKeys(c)
			if err != nil {
				return err
			}
			found, err := log.Verify(ctx, audit.VerifyOptions{Keys: keys})
			if err != nil {
				return err
			}
			about.Log.Found(found)
		}
		filter.Missing = func(s audit.Segment) {
			p.warnMissing(s)
			if remark := s.Missing(); !slices.Contains(about.Log.Remarks, remark) {
				about.Log.Remarks = append(about.Log.Remarks, remark)
			}
		}
		summary, err := auditreport.Collect(log.Rows(ctx, filter))
		if err != nil {
			return err
		}
		return p.WriteOut(c.String("out"), func(w io.Writer) error {
			buffered := bufio.NewWriter(w)
			return errors.Join(summary.Write(buffered, about), buffered.Flush())
		})
	})
}
