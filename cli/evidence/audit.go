// Package evidence implements the commands that print and verify the audit log, artifacts, receipts and keys.
package evidence

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/export"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
	"github.com/sandboxmcp/sandboxmcp/cli/auditrows"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

func (p commands) auditCommand() *cli.Command {
	return &cli.Command{
		Name:  "audit",
		Usage: "show the log of all runs, refusals and decisions",
		UsageText: `sandboxmcp audit [flags]
sandboxmcp audit tail [-n N] [-f]
sandboxmcp audit show ID
sandboxmcp audit verify [flags]
sandboxmcp audit report [--since TIME] [--out FILE] [LOG ...]
sandboxmcp audit export --format FORMAT [--since TIME] [--out FILE] [LOG ...]
sandboxmcp audit checkpoint | proof ID | receipt ID
sandboxmcp audit rotate [--keep 365d]`,
		Description: `Examples:
  sandboxmcp audit --since 2h
  sandboxmcp audit --kind execution.refused --since 2026-01-31 --format csv
  sandboxmcp audit --agent claude --since 24h
  sandboxmcp audit --follow`,
		Flags: append(filterFlags(), agentFlag(),
			&cli.IntFlag{Name: "limit", Usage: "only the newest `N` rows", DefaultText: "all"},
			&cli.StringFlag{Name: "format", Usage: "`FORMAT`: table, json or csv", Value: "table"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "follow new rows"},
			asJSONFlag(),
		),
		Action: p.auditRows("limit", "--limit", "leave it out for all rows"),
		Subcommands: []*cli.Command{
			p.auditTailCommand(), p.auditShowCommand(), p.auditVerifyCommand(), p.auditReportCommand(), p.auditExportCommand(),
			p.auditCheckpointCommand(), p.auditProofCommand(), p.auditReceiptCommand(), p.auditRotateCommand(),
		},
	}
}

// filterFlags returns the flags that filter rows.
func filterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "namespace", Usage: "only rows of the namespace `NS`"},
		&cli.StringFlag{Name: "since", Usage: "only rows from `TIME` on: 2h, 3d, 2026-01-31, or RFC 3339"},
		&cli.StringFlag{Name: "until", Usage: "only rows before `TIME`"},
		&cli.StringSliceFlag{Name: "kind", Usage: "only rows of the kind `KIND`, such as execution.refused"},
	}
}

func agentFlag() cli.Flag {
	return &cli.StringFlag{Name: "agent", Usage: "only rows of runs of the agent `NAME`, as in sandboxmcp agent NAME or the name of " +
		"an MCP client"}
}

func asJSONFlag() cli.Flag { return &cli.BoolFlag{Name: "json", Usage: "the same as --format json"} }

func (p commands) auditTailCommand() *cli.Command {
	return &cli.Command{
		Name:        "tail",
		Usage:       "show the newest rows, and with -f follow new ones",
		UsageText:   "sandboxmcp audit tail [-n N] [-f] [flags]",
		Description: "Example: sandboxmcp audit tail -n 20 -f --namespace team",
		Flags: append(filterFlags(), agentFlag(),
			&cli.IntFlag{Name: "lines", Aliases: []string{"n"}, Usage: "begin with the newest `N` rows", Value: 10},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "follow new rows"},
			&cli.StringFlag{Name: "format", Usage: "`FORMAT`: table, json or csv", Value: "table"},
			asJSONFlag(),
		),
		Action: p.auditRows("lines", "-n", "sandboxmcp audit tail -n 10"),
	}
}

func (p commands) auditShowCommand() *cli.Command {
	return &cli.Command{
		Name:        "show",
		Usage:       "show all rows of a run, or one row by its number",
		UsageText:   "sandboxmcp audit show ID [--json]",
		Description: "Example: sandboxmcp audit show 01K9ZB5W7Q3M8Y2D4F6H8J0K2M",
		Flags:       []cli.Flag{command.JSONFlag()},
		Action:      command.ExactlyOneWord(p.auditShow, "sandboxmcp audit --limit 10", "show needs the id of one run, or the number of one row"),
	}
}

func (p commands) auditExportCommand() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "export rows for other programs, or as a table for a browser",
		UsageText: "sandboxmcp audit export --format FORMAT [flags]",
		Description: `FORMAT is
  jsonl  a line of JSON a row, with its hashes and byte for byte as the log has it
  csv    for spreadsheets (RFC 4180); formulas are escaped
  html   one page with a table, for a browser or for printing; it loads nothing and runs nothing

Examples:
  sandboxmcp audit export --format jsonl --since 24h --out events.jsonl
  sandboxmcp audit export --format csv --namespace team --kind egress.denied
  sandboxmcp audit export --format jsonl --damaged old.db`,
		Flags: append(filterFlags(), &cli.BoolFlag{Name: "damaged", Usage: "of LOG, read what can be read, and say which rows can't be"},
			&cli.StringFlag{Name: "format", Usage: "`FORMAT`: " + strings.Join(export.Formats(), ", ")}, command.OutFlag()),
		Action: p.auditExport,
	}
}

func (p commands) auditReportCommand() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "write a report about runs, refusals and approvals",
		UsageText: "sandboxmcp audit report [flags]",
		Description: `The report is one HTML page for any browser, or for printing on A4 or Letter; it loads nothing and runs nothing. Its cover
has the period, the machine, the policies, the signing keys and the result of the log's verification; figures, the newest 1,000 runs and
lines for signatures follow.

Example: sandboxmcp audit report --since 30d --organisation 'Example Ltd' --out report.html`,
		Flags: append(filterFlags(), keyFlag(), command.OutFlag(),
			&cli.StringFlag{Name: "organisation", Usage: "print the organisation `NAME` on the cover"},
			&cli.BoolFlag{Name: "no-verify", Usage: "do not verify the log first, and say so in the report"}),
		Action: p.auditReport,
	}
}

func keyFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "key", Usage: "trust `KEY` only, a file of sandboxmcp key export (may be given more than once)"}
}

// Commands returns the commands of this package.
func Commands(s *command.Streams) []*cli.Command {
	p := commands{s}
	return []*cli.Command{p.auditCommand(), p.verifyCommand(), p.keyCommand(), p.artifactsCommand()}
}

// commands are the actions of this package on the streams of one invocation.
type commands struct{ *command.Streams }

// auditRows returns the action that prints the rows that the command line selects, up to the limit in a flag.
func (p commands) auditRows(flag, typed, hint string) cli.ActionFunc {
	return command.NoWords(func(c *cli.Context) error {
		filter, err := p.auditFilter(c, time.Now())
		if err != nil {
			return err
		}
		if filter.Limit = c.Int(flag); c.IsSet(flag) && filter.Limit <= 0 {
			return exit.Usage(hint, "%s must be more than 0", typed)
		}
		follow, format := c.Bool("follow"), c.String("format")
		if c.Bool("json") {
			if c.IsSet("format") && format != "json" {
				return exit.Usage("leave one of them out", "--json and --format %s contradict each other", terminal.Visible(format))
			}
			format = "json"
		}
		out, err := auditrows.NewWriter(format, p.Out, follow)
		if err != nil {
			return err
		}
		return wiring.WithLog(c, func(ctx context.Context, log *audit.Log) error {
			find := log.Rows
			if follow { // with --follow, the rows to come as well
				find = func(ctx context.Context, f audit.Filter) iter.Seq2[audit.Row, error] {
					return log.RowsAndNew(ctx, f, 200*time.Millisecond)
				}
			}
			if agent := c.String("agent"); agent != "" {
				if follow {
					filter.Limit = 0 // the rows to come have no end
				}
				return writeRows(out, agentRows(ctx, log, filter, agent, find))
			}
			return writeRows(out, find(ctx, filter))
		})
	})
}

// agentRows yields the rows that filter and find choose, of runs that an agent made. The name of the agent is in the rows
// of a run's start and end, but not in those of its decisions.
func agentRows(ctx context.Context, log *audit.Log, filter audit.Filter, agent string,
	find func(context.Context, audit.Filter) iter.Seq2[audit.Row, error]) iter.Seq2[audit.Row, error] {
	return func(yield func(audit.Row, error) bool) {
		runs := map[string]bool{}
		isOf := func(row audit.Row) bool {
			if facts.Parse(row).Client == agent {
				runs[row.Run] = true
			}
			return runs[row.Run]
		}
		name, _ := json.Marshal(agent) // of a string
		for row, err := range log.Rows(ctx, audit.Filter{Namespace: filter.Namespace, Contains: []string{string(name)}}) {
			if err != nil {
				yield(row, err)
				return
			}
			isOf(row)
		}
		limit := filter.Limit
		filter.Limit = 0
		var newest []audit.Row
		for row, err := range find(ctx, filter) {
			switch {
			case err == nil && !isOf(row):
			case err == nil && limit > 0:
				newest = append(newest[max(0, len(newest)-limit+1):], row)
			case !yield(row, err):
				return
			}
		}
		for _, row := range newest {
			if !yield(row, nil) {
				return
			}
		}
	}
}

func writeRows(out export.Writer, rows iter.Seq2[audit.Row, error]) error {
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

// auditFilter returns the filter of the flags of choosing.
func (p commands) auditFilter(c *cli.Context, now time.Time) (audit.Filter, error) {
	f := audit.Filter{Namespace: c.String("namespace"), Kinds: c.StringSlice("kind")}
	if err := event.CheckRows(f.Kinds); err != nil {
		return f, exit.Usage("--kind execution.refused", "--kind: %v", err)
	}
	for _, bound := range []struct {
		flag string
		to   *time.Time
	}{{"since", &f.Since}, {"until", &f.Until}} {
		text := c.String(bound.flag)
		if text == "" {
			continue
		}
		t, err := timeFlag(bound.flag, text, now)
		if err != nil {
			return f, err
		}
		*bound.to = t
	}
	if !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return f, exit.Usage("--since 2026-01-01 --until 2026-02-01", "--since must be before --until")
	}
	return f, nil
}

// timeFlag parses the value of a flag as a point in time.
func timeFlag(flag, text string, now time.Time) (time.Time, error) {
	t, ok := audit.PointInTime(text, now)
	if !ok {
		return t, exit.Usage("--"+flag+" 2h, 3d, 2026-01-31 or 2026-01-31T15:04:05Z", "invalid --%s %q", flag, text)
	}
	return t, nil
}

// describeFilter describes a filter, with a phrase for each condition.
func describeFilter(f audit.Filter) []string {
	var words []string
	if f.Namespace != "" {
		words = append(words, "rows of the namespace "+f.Namespace)
	}
	if len(f.Kinds) > 0 {
		words = append(words, "rows of the kind "+strings.Join(f.Kinds, " or "))
	}
	if !f.Since.IsZero() {
		words = append(words, "rows from "+f.Since.UTC().Format(time.RFC3339)+" on")
	}
	if !f.Until.IsZero() {
		words = append(words, "rows before "+f.Until.UTC().Format(time.RFC3339))
	}
	return words
}

func (p commands) auditShow(c *cli.Context) error {
	id := c.Args().First()
	filter := audit.Filter{Run: strings.ToUpper(id)}
	if seq, err := strconv.ParseInt(id, 10, 64); err == nil && seq > 0 && len(id) < 19 {
		filter = audit.Filter{After: seq - 1, Before: seq + 1}
	}
	return wiring.WithLog(c, func(ctx context.Context, log *audit.Log) error {
		var found []audit.Row
		for row, err := range log.Rows(ctx, filter) {
			if err != nil {
				return err
			}
			found = append(found, row)
		}
		if first, err := log.FirstSeq(ctx); err != nil {
			return err
		} else if len(found) == 0 && first > 1 {
			return exit.Fail("sandboxmcp audit export LOG, with the older file of the log", "the log here, from row %d on, has no row about %s",
				first, id)
		}
		if len(found) == 0 {
			return exit.Fail("sandboxmcp audit --limit 10", "the log has no row about %s", id)
		}
		if c.Bool("json") {
			out := &auditrows.JSON{W: p.Out}
			for _, row := range found {
				if err := out.Row(row); err != nil {
					return err
				}
			}
			return out.Close()
		}
		return auditrows.WriteFacts(p.Out, found)
	})
}
