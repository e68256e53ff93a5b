package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

func (p *program) auditSealCommand() *cli.Command {
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

func (p *program) auditSeal(c *cli.Context) error {
	set := setFlags(c, "before", "older-than")
	if len(set) != 1 {
		return exit.Usage("sandboxmcp audit seal --older-than 90d", "say which rows, with --before or --older-than")
	}
	before, err := timeFlag(set[0], c.String(set[0]), time.Now())
	if err != nil {
		return err
	}
	return withSignedLog(c, func(ctx context.Context, log *audit.Log) error {
		segments, err := log.Seal(ctx, before)
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return terminal.WriteJSON(p.Out, append([]audit.Segment{}, segments...))
		}
		if len(segments) == 0 {
			_, err = fmt.Fprintf(p.Out, "there are no rows to seal before %s\n", before.Format(time.RFC3339))
		}
		for _, s := range segments {
			if err == nil {
				_, err = fmt.Fprintf(p.Out, "sealed rows %d to %d in %s, SHA-256 %s\n", s.First, s.Last, terminal.Visible(s.File), s.SHA256)
			}
		}
		return err
	})
}
