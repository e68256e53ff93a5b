package evidence

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
)

func (p commands) auditRotateCommand() *cli.Command {
	return &cli.Command{
		Name:      "rotate",
		Usage:     "start a new log file; delete old ones",
		UsageText: "sandboxmcp audit rotate [--keep AGE] [--json]",
		Description: `The file gets a last row, and all of its rows are signed. The next file is beside it, with a number at the end of its name,
and begins with a row that has the signed checkpoint: chain and tree continue. Running servers switch to it by themselves.
A closed file may be moved to other storage; audit verify, report and export read it there by its path.
--keep deletes files with only older rows. This works on a full disk, too: space is reserved for it.

Example: sandboxmcp audit rotate --keep 365d`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "keep", Usage: "delete files with only rows older than `AGE`: 365d, 12w"},
			command.JSONFlag(),
		},
		Action: command.NoWords(p.auditRotate),
	}
}

func (p commands) auditRotate(c *cli.Context) error {
	if c.IsSet("keep") {
		if _, err := timeFlag("keep", c.String("keep"), time.Now()); err != nil {
			return err
		}
	}
	return wiring.WithFreedLog(c, func(ctx context.Context, log *audit.Log) error {
		result := struct {
			Closed  *audit.File  `json:"closed"`
			Deleted []audit.File `json:"deleted"`
		}{Deleted: []audit.File{}}
		text := "the file has no rows to close\n"
		if c.IsSet("keep") { // first, for the space
			var err error
			if result.Deleted, err = prune(ctx, c, log); err != nil {
				return err
			}
		}
		closed, err := log.Rotate(ctx)
		if err == nil && closed.Last > 0 {
			result.Closed = &closed
			text = fmt.Sprintf("closed %s with rows %d to %d\n", terminal.Visible(closed.Path), closed.First, closed.Last)
		}
		if err == nil && c.IsSet("keep") {
			var more []audit.File
			more, err = prune(ctx, c, log)
			result.Deleted = append(result.Deleted, more...)
		}
		for _, f := range result.Deleted {
			text += fmt.Sprintf("deleted %s with rows %d to %d\n", terminal.Visible(f.Path), f.First, f.Last)
		}
		if err != nil {
			return err
		}
		return p.Printf(c, result, "%s", text)
	})
}

func prune(ctx context.Context, c *cli.Context, log *audit.Log) ([]audit.File, error) {
	before, err := timeFlag("keep", c.String("keep"), time.Now())
	if err != nil {
		return nil, err
	}
	deleted, err := log.Prune(ctx, before)
	return append([]audit.File{}, deleted...), err
}

// withNamedLog is [wiring.WithLogToRead] for the log in the files that the command line names, or else the configured one.
func withNamedLog(c *cli.Context, f func(context.Context, *audit.Log) error) error {
	if c.NArg() == 0 && c.Bool("damaged") {
		return exit.Usage("sandboxmcp audit export --damaged --format jsonl FILE", "--damaged needs the name of a log file")
	}
	if c.NArg() == 0 {
		return wiring.WithLogToRead(c, f)
	}
	ctx, stop := command.UntilSignal(c)
	defer stop()
	openFiles := audit.OpenFiles
	if c.Bool("damaged") {
		openFiles = audit.OpenDamaged
	}
	log, err := openFiles(ctx, c.Args().Slice()...)
	if err != nil {
		return err
	}
	defer log.Close()
	return f(ctx, log)
}
