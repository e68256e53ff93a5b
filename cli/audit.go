package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

func (p *program) auditCommand() *cli.Command {
	asJSON := &cli.BoolFlag{Name: "json", Usage: "print it as JSON"}
	return &cli.Command{
		Name:      "audit",
		Usage:     "show the log of all runs, refusals and decisions",
		UsageText: "sandboxmcp audit [flags]\nsandboxmcp audit verify\nsandboxmcp audit show ID",
		Description: `Examples:
  sandboxmcp audit --since 2h
  sandboxmcp audit --kind execution.refused --since 2026-01-31 --format csv
  sandboxmcp audit --follow`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "namespace", Usage: "only rows of the namespace `NS`"},
			&cli.StringFlag{Name: "since", Usage: "only rows from `TIME` on: 2h, 3d, 2026-01-31, or RFC 3339"},
			&cli.StringFlag{Name: "until", Usage: "only rows before `TIME`"},
			&cli.StringSliceFlag{Name: "kind", Usage: "only rows of the kind `KIND`, such as execution.refused"},
			&cli.IntFlag{Name: "limit", Usage: "only the newest `N` rows"},
			&cli.StringFlag{Name: "format", Usage: "`FORMAT`: table, json or csv", Value: "table"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with the rows that come"},
		},
		Action: p.auditList,
		Subcommands: []*cli.Command{
			{
				Name:        "verify",
				Usage:       "check that nobody has changed the log; the exit code is 1 if somebody has",
				UsageText:   "sandboxmcp audit verify [--json]",
				Description: "Example: sandboxmcp audit verify",
				Flags:       []cli.Flag{asJSON},
				Action:      p.auditVerify,
			},
			{
				Name:        "show",
				Usage:       "show all that the log has about one run, or one row by its number",
				UsageText:   "sandboxmcp audit show ID [--json]",
				Description: "Example: sandboxmcp audit show 01K9ZB5W7Q3M8Y2D4F6H8J0K2M",
				Flags:       []cli.Flag{asJSON},
				Action:      p.auditShow,
			},
		},
	}
}

// withLog opens the audit log for f. Signals end its context.
func withLog(c *cli.Context, f func(context.Context, *audit.Log) error) error {
	cfg, err := load(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	log, err := audit.Open(ctx, cfg.SQLitePath)
	if err != nil {
		return err
	}
	defer log.Close()
	return f(ctx, log)
}

func (p *program) auditList(c *cli.Context) error {
	if err := noWords(c); err != nil {
		return err
	}
	filter, err := auditFilter(c, time.Now())
	if err != nil {
		return err
	}
	follow := c.Bool("follow")
	out, err := newRowWriter(c.String("format"), p.stdout, follow)
	if err != nil {
		return err
	}
	return withLog(c, func(ctx context.Context, log *audit.Log) error {
		if !follow {
			return writeRows(out, log.Rows(ctx, filter))
		}
		return writeRows(out, log.Follow(ctx, filter, 200*time.Millisecond))
	})
}

func auditFilter(c *cli.Context, now time.Time) (audit.Filter, error) {
	f := audit.Filter{Namespace: c.String("namespace"), Kinds: c.StringSlice("kind"), Limit: c.Int("limit")}
	if c.IsSet("limit") && f.Limit <= 0 {
		return f, usage("leave it out for all rows", "--limit must be more than 0")
	}
	for _, bound := range []struct {
		flag string
		to   *time.Time
	}{{"since", &f.Since}, {"until", &f.Until}} {
		text := c.String(bound.flag)
		if text == "" {
			continue
		}
		t, ok := moment(text, now)
		if !ok {
			return f, usage("--"+bound.flag+" 2h, 3d, 2026-01-31 or 2026-01-31T15:04:05Z", "--%s %q is no time", bound.flag, text)
		}
		*bound.to = t
	}
	return f, nil
}

// moment reads a point in time: a date, a date and time, or how long ago it was.
func moment(text string, now time.Time) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, true
		}
	}
	for suffix, day := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		number, ok := strings.CutSuffix(text, suffix)
		if n, err := strconv.ParseFloat(number, 64); ok && err == nil && n >= 0 && n < 36500 {
			return now.Add(-time.Duration(n * float64(day))), true
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), true
	}
	return time.Time{}, false
}

func writeRows(out rowWriter, rows iter.Seq2[audit.Row, error]) error {
	for row, err := range rows {
		if err == nil {
			err = out.Row(row)
		}
		if err != nil {
			return errors.Join(err, out.Close())
		}
	}
	return out.Close()
}

func (p *program) auditVerify(c *cli.Context) error {
	if err := noWords(c); err != nil {
		return err
	}
	return withLog(c, func(ctx context.Context, log *audit.Log) error {
		report, err := log.Verify(ctx)
		if err != nil {
			return err
		}
		if c.Bool("json") {
			err = writeJSON(p.stdout, report)
		} else if report.Bad == nil {
			_, err = fmt.Fprintf(p.stdout, "ok: %s, head %s\n", count(int(report.Rows), "row"), report.Head)
		}
		if err != nil || report.Bad == nil {
			return err
		}
		where := fmt.Sprintf("row %d", report.Bad.Seq)
		if report.Bad.Seq == 0 {
			where = "the log"
		}
		return fail("keep a copy of the database: it is evidence", "%s is not as it was written: %s (%s before it are good)",
			where, report.Bad.Why, count(int(report.Rows), "row"))
	})
}

func (p *program) auditShow(c *cli.Context) error {
	id := c.Args().First()
	if c.NArg() != 1 {
		return usage("sandboxmcp audit --limit 10", "show needs the id of one run, or the number of one row")
	}
	filter := audit.Filter{Run: strings.ToUpper(id)}
	if seq, err := strconv.ParseInt(id, 10, 64); err == nil && len(id) < 19 {
		filter = audit.Filter{After: seq - 1}
	}
	return withLog(c, func(ctx context.Context, log *audit.Log) error {
		found := []audit.Row{}
		for row, err := range log.Rows(ctx, filter) {
			if err != nil {
				return err
			}
			if filter.Run == "" && row.Seq != filter.After+1 {
				break
			}
			found = append(found, row)
			if filter.Run == "" {
				break
			}
		}
		if len(found) == 0 {
			return fail("sandboxmcp audit --limit 10", "the log has nothing about %s", id)
		}
		if c.Bool("json") {
			return writeRows(&jsonWriter{w: p.stdout}, each(found))
		}
		return showRows(p.stdout, found)
	})
}

func each(rows []audit.Row) iter.Seq2[audit.Row, error] {
	return func(yield func(audit.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}
