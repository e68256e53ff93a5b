package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/export"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

func (p commands) auditMergeCommand() *cli.Command {
	return &cli.Command{
		Name:      "merge",
		Usage:     "put the exports of many servers' logs into one, by time",
		UsageText: "sandboxmcp audit merge [flags] FILE ...",
		Description: `Each FILE is an export as JSON lines. Each log's chain of hashes is verified by itself, a row that is in several files is written
once, and each line says from which file it is. Rows of different servers are in the order of their machines' clocks. Of a file with a row that is
not as the log had it, no row from there on is written, and the exit code is 1.

Example: sandboxmcp audit merge server-0.jsonl server-1.jsonl --out all.jsonl`,
		Flags: []cli.Flag{command.OutFlag(),
			&cli.BoolFlag{Name: "filtered", Usage: "the exports have not all rows: take what is missing for left out by a filter"}},
		Action: p.auditMerge,
	}
}

func (p commands) auditMerge(c *cli.Context) error {
	if c.NArg() == 0 {
		return exit.Usage("sandboxmcp audit merge server-0.jsonl server-1.jsonl", "say which exports to merge")
	}
	var all []audit.Exported
	for _, name := range c.Args().Slice() {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		all = append(all, audit.Exported{Name: name, From: f, Some: c.Bool("filtered")})
	}
	bad := 0
	err := p.WriteOut(c.String("out"), func(w io.Writer) error {
		if p.onTerminal(c) {
			w = terminal.JSONLines{W: w}
		}
		for m, err := range audit.Merge(all) {
			if err != nil {
				bad++
				fmt.Fprintln(p.Err, "sandboxmcp:", terminal.Visible(err.Error()))
				continue
			}
			line, err := json.Marshal(mergedRow{export.Sound(m.Row), m.From})
			if err != nil {
				return err
			}
			if _, err := w.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		return nil
	})
	if bad > 0 {
		err = errors.Join(err, exit.Silent(exit.Failed))
	}
	return err
}

// mergedRow is a line of the result.
type mergedRow struct {
	audit.Row
	From string `json:"from"`
}
