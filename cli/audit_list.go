package cli

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/auditrows"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

func (p *program) auditList(c *cli.Context) error {
	filter, err := p.auditFilter(c, time.Now())
	if err != nil {
		return err
	}
	if filter.Limit = c.Int("limit"); c.IsSet("limit") && filter.Limit <= 0 {
		return exit.Usage("leave it out for all rows", "--limit must be more than 0")
	}
	return p.printRows(c, filter)
}

func (p *program) auditTail(c *cli.Context) error {
	filter, err := p.auditFilter(c, time.Now())
	if err != nil {
		return err
	}
	if filter.Limit = c.Int("lines"); filter.Limit <= 0 {
		return exit.Usage("sandboxmcp audit tail -n 10", "-n must be more than 0")
	}
	return p.printRows(c, filter)
}

// printRows prints the rows of the log that filter chooses and, if that was asked for, those that come.
func (p *program) printRows(c *cli.Context, filter audit.Filter) error {
	follow := c.Bool("follow")
	format := c.String("format")
	if c.Bool("json") {
		if c.IsSet("format") && format != "json" {
			return exit.Usage("leave one of them out", "--json and --format %s contradict each other", terminal.Visible(format))
		}
		format = "json"
	}
	out, err := auditrows.New(format, p.Out, follow)
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

func writeRows(out auditrows.Writer, rows iter.Seq2[audit.Row, error]) error {
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
