package evidence

import (
	"context"
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
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
)

func (p commands) auditExport(c *cli.Context) error {
	now := time.Now()
	filter, err := p.auditFilter(c, now)
	if err != nil {
		return err
	}
	format := c.String("format")
	about := export.About{Version: version.Current().Version, Made: now, Scope: strings.Join(describeFilter(filter), ", ")}
	if !slices.Contains(export.Formats(), format) {
		return exit.Usage("--format "+strings.Join(export.Formats(), ", "), "unknown export format %q", format)
	}
	return withNamedLog(c, func(ctx context.Context, log *audit.Log) error {
		return p.WriteOut(c.String("out"), func(w io.Writer) error {
			if format == "jsonl" && p.isTerminalOutput(c) {
				w = terminal.JSONLines{W: w}
			}
			out, err := export.New(format, w, about)
			if err != nil {
				return err
			}
			return writeRows(out, log.Rows(ctx, filter))
		})
	})
}

func (p commands) auditReport(c *cli.Context) error {
	now := time.Now()
	filter, err := p.auditFilter(c, now)
	if err != nil {
		return err
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	trust, err := trustedKeys(c)
	if err != nil {
		return err
	}
	machine, _ := os.Hostname()
	about := auditreport.About{Version: version.Current().Version, Made: now, Organisation: c.String("organisation"), Machine: machine,
		Since: filter.Since, Until: filter.Until, Scope: describeFilter(filter), Log: auditreport.Log{Path: cfg.SQLitePath}}
	if c.NArg() > 0 {
		about.Log.Path = strings.Join(c.Args().Slice(), ", ")
	}
	for _, k := range trust.Keys() {
		about.Log.Keys = append(about.Log.Keys, k.ID())
	}
	return withNamedLog(c, func(ctx context.Context, log *audit.Log) error {
		if !c.Bool("no-verify") {
			keys, err := logKeys(c)
			if err != nil {
				return err
			}
			found, err := log.Verify(ctx, audit.VerifyOptions{Keys: keys})
			if err != nil {
				return err
			}
			about.Log.Checked, about.Log.Report = true, found
		}
		summary, err := auditreport.Collect(log.Rows(ctx, filter))
		if err != nil {
			return err
		}
		return p.WriteOut(c.String("out"), func(w io.Writer) error { return summary.Write(w, about) })
	})
}
