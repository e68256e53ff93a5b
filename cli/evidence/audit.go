// Package evidence has the commands that show and check what runs leave: the audit log, artifacts, receipts and keys.
package evidence

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit/export"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
)

func (p commands) auditCommand() *cli.Command {
	return &cli.Command{
		Name:  "audit",
		Usage: "show the log of all runs, refusals and decisions",
		UsageText: `sandboxmcp audit [flags]
sandboxmcp audit tail [-n N] [-f]
sandboxmcp audit show ID
sandboxmcp audit verify [flags]
sandboxmcp audit report [--since TIME] [--out FILE]
sandboxmcp audit export --format FORMAT [--since TIME] [--out FILE]
sandboxmcp audit checkpoint | proof ID | receipt ID
sandboxmcp audit seal --older-than 90d`,
		Description: `Examples:
  sandboxmcp audit --since 2h
  sandboxmcp audit --kind execution.refused --since 2026-01-31 --format csv
  sandboxmcp audit --follow`,
		Flags: append(choosing(),
			&cli.IntFlag{Name: "limit", Usage: "only the newest `N` rows", DefaultText: "all"},
			&cli.StringFlag{Name: "format", Usage: "`FORMAT`: table, json or csv", Value: "table"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with the rows that come"},
			asJSONFlag(),
		),
		Action: command.NoWords(p.auditList),
		Subcommands: []*cli.Command{
			p.auditTailCommand(), p.auditShowCommand(), p.auditVerifyCommand(), p.auditReportCommand(), p.auditExportCommand(),
			p.auditCheckpointCommand(), p.auditProofCommand(), p.auditReceiptCommand(), p.auditSealCommand(),
		},
	}
}

// choosing are the flags that choose rows.
func choosing() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "namespace", Usage: "only rows of the namespace `NS`"},
		&cli.StringFlag{Name: "since", Usage: "only rows from `TIME` on: 2h, 3d, 2026-01-31, or RFC 3339"},
		&cli.StringFlag{Name: "until", Usage: "only rows before `TIME`"},
		&cli.StringSliceFlag{Name: "kind", Usage: "only rows of the kind `KIND`, such as execution.refused"},
		&cli.BoolFlag{Name: "live", Usage: "only rows in the database, and none of the sealed files"},
	}
}

func asJSONFlag() cli.Flag { return &cli.BoolFlag{Name: "json", Usage: "the same as --format json"} }

func (p commands) auditTailCommand() *cli.Command {
	return &cli.Command{
		Name:        "tail",
		Usage:       "show the newest rows, and with -f those that come",
		UsageText:   "sandboxmcp audit tail [-n N] [-f] [flags]",
		Description: "Example: sandboxmcp audit tail -n 20 -f --namespace team",
		Flags: append(choosing(),
			&cli.IntFlag{Name: "lines", Aliases: []string{"n"}, Usage: "begin with the newest `N` rows", Value: 10},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with the rows that come"},
			&cli.StringFlag{Name: "format", Usage: "`FORMAT`: table, json or csv", Value: "table"},
			asJSONFlag(),
		),
		Action: command.NoWords(p.auditTail),
	}
}

func (p commands) auditShowCommand() *cli.Command {
	return &cli.Command{
		Name:        "show",
		Usage:       "show all that the log has about one run, or one row by its number",
		UsageText:   "sandboxmcp audit show ID [--json]",
		Description: "Example: sandboxmcp audit show 01K9ZB5W7Q3M8Y2D4F6H8J0K2M",
		Flags:       []cli.Flag{command.JSONFlag()},
		Action:      p.auditShow,
	}
}

func (p commands) auditExportCommand() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "write rows for other programs, or as a table for a browser",
		UsageText: "sandboxmcp audit export --format FORMAT [flags]",
		Description: `FORMAT is
  jsonl  a line of JSON a row, with its hashes and byte for byte as the log has it
  csv    for spreadsheets (RFC 4180); what they would take for a formula is made text
  html   one page with a table, to be read in a browser or printed; it loads nothing and runs nothing
  ocsf   an event a line, as of the Open Cybersecurity Schema Framework ` + export.OCSFVersion + `, for security systems

Examples:
  sandboxmcp audit export --format ocsf --since 24h --out events.jsonl
  sandboxmcp audit export --format csv --namespace team --kind egress.denied`,
		Flags:  append(choosing(), &cli.StringFlag{Name: "format", Usage: "`FORMAT`: " + strings.Join(export.Formats(), ", ")}, command.OutFlag()),
		Action: command.NoWords(p.auditExport),
	}
}

func (p commands) auditReportCommand() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "make one page about what ran, what was refused, and who allowed what",
		UsageText: "sandboxmcp audit report [flags]",
		Description: `The page is HTML, can be read in any browser and printed on A4 or Letter, and needs nothing else: it loads nothing
and runs nothing. Its cover says for what period and machine it is, under which policies the runs were, whose keys sign, and whether
the log is as it was written; then come the figures, the newest 1,000 runs one by one, and lines to sign on.

Example: sandboxmcp audit report --since 30d --organisation 'Example Ltd' --out report.html`,
		Flags: append(choosing(), keyFlag(), command.OutFlag(),
			&cli.StringFlag{Name: "organisation", Usage: "write `NAME` on the cover, as whose report it is"},
			&cli.BoolFlag{Name: "no-verify", Usage: "do not check the whole log first, and say so on the page"}),
		Action: command.NoWords(p.auditReport),
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

// commands are the actions, on the streams of an invocation.
type commands struct{ *command.Streams }
