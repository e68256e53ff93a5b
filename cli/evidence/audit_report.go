package evidence

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/export"
	auditreport "github.com/sandboxmcp/sandboxmcp/audit/report"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
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
	about := export.About{Version: version.Current().Version, Made: now, Scope: strings.Join(scope(filter), ", ")}
	if !slices.Contains(export.Formats(), format) {
		return exit.Usage("--format "+strings.Join(export.Formats(), ", "), "there is no format %q to export to", format)
	}
	return wiring.WithLog(c, func(ctx context.Context, log *audit.Log) error {
		return p.WriteOut(c.String("out"), func(w io.Writer) error {
			if format == "jsonl" && p.onTerminal(c) {
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
	trust, err := trusted(c)
	if err != nil {
		return err
	}
	machine, _ := os.Hostname()
	about := auditreport.About{Version: version.Current().Version, Made: now, Organisation: c.String("organisation"), Machine: machine,
		Since: filter.Since, Until: filter.Until, Scope: scope(filter), Log: auditreport.Log{Path: cfg.SQLitePath}}
	for _, k := range trust.Keys() {
		about.Log.Keys = append(about.Log.Keys, k.ID())
	}
	return wiring.WithLog(c, func(ctx context.Context, log *audit.Log) error {
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
		return p.WriteOut(c.String("out"), func(w io.Writer) error { return summary.Write(w, about) })
	})
}

func (p commands) auditSealCommand() *cli.Command {
	return &cli.Command{
		Name:      "seal",
		Usage:     "move old rows into sealed files beside the log",
		UsageText: "sandboxmcp audit seal --before TIME\nsandboxmcp audit seal --older-than 90d",
		Description: `The rows leave the database, and the chain stays provable: each file has the signed checkpoint at its end, and
audit verify looks at the files, too. A file may be moved to other storage once it is sealed.

Example: sandboxmcp audit seal --older-than 90d`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "before", Usage: "rows before `TIME`: 2026-01-31, or RFC 3339"},
			&cli.StringFlag{Name: "older-than", Usage: "rows that are older than `AGE`: 90d, 12w, 36h"},
			command.JSONFlag(),
		},
		Action: command.NoWords(p.auditSeal),
	}
}

func (p commands) auditSeal(c *cli.Context) error {
	set := setFlags(c, "before", "older-than")
	if len(set) != 1 {
		return exit.Usage("sandboxmcp audit seal --older-than 90d", "say which rows, with --before or --older-than")
	}
	before, err := timeFlag(set[0], c.String(set[0]), time.Now())
	if err != nil {
		return err
	}
	return wiring.WithSignedLog(c, func(ctx context.Context, log *audit.Log) error {
		segments, err := log.Seal(ctx, before)
		if err != nil {
			return err
		}
		text := ""
		if len(segments) == 0 {
			text = fmt.Sprintf("there are no rows to seal before %s\n", before.Format(time.RFC3339))
		}
		for _, s := range segments {
			text += fmt.Sprintf("sealed rows %d to %d in %s, SHA-256 %s\n", s.First, s.Last, terminal.Visible(s.File), s.SHA256)
		}
		return p.Printf(c, append([]audit.Segment{}, segments...), "%s", text)
	})
}
