package cli

import (
	"context"
	"iter"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/auditrows"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
)

func (p *program) auditShow(c *cli.Context) error {
	id := c.Args().First()
	if c.NArg() != 1 {
		return exit.Usage("sandboxmcp audit --limit 10", "show needs the id of one run, or the number of one row")
	}
	missing := false
	filter := audit.Filter{Run: strings.ToUpper(id), Sealed: true, Missing: func(s audit.Segment) {
		missing = true
		p.warnMissing(s)
	}}
	if seq, err := strconv.ParseInt(id, 10, 64); err == nil && len(id) < 19 {
		filter = audit.Filter{After: seq - 1, Sealed: true} // a segment that is not here is an error then
	}
	return withLog(c, func(ctx context.Context, log *audit.Log) error {
		found, err := rowsAbout(log.Rows(ctx, filter), filter)
		if err != nil {
			return err
		}
		if len(found) == 0 && missing {
			return exit.Fail("put the missing files back where they were", "what is here of the log has nothing about %s", id)
		}
		if len(found) == 0 {
			return exit.Fail("sandboxmcp audit --limit 10", "the log has nothing about %s", id)
		}
		if c.Bool("json") {
			return writeRows(&auditrows.JSON{W: p.Out}, each(found))
		}
		return auditrows.Show(p.Out, found)
	})
}

// rowsAbout are the rows of the run that f names or, if it names none, the one that comes after f.After.
func rowsAbout(rows iter.Seq2[audit.Row, error], f audit.Filter) (found []audit.Row, err error) {
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		if f.Run == "" && row.Seq != f.After+1 {
			break
		}
		found = append(found, row)
		if f.Run == "" {
			break
		}
	}
	return found, nil
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
