package cli

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

// auditVerdict is what audit verify --json says first.
type auditVerdict struct {
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"`
}

func verdictOn(err error) auditVerdict {
	if err == nil {
		return auditVerdict{OK: true}
	}
	return auditVerdict{Problem: exit.Of(err).Text}
}

// asJSON prints what was found, and with it what is wrong, if anything is: err then has been said.
func (p *program) asJSON(found any, err error) error {
	if err := terminal.WriteJSON(p.Out, found); err != nil {
		return err
	}
	if err != nil {
		return exit.Silent(exit.Of(err).Code)
	}
	return nil
}

// tellReport says what was found about the log or one of its segments. err is what is wrong.
func (p *program) tellReport(c *cli.Context, r *audit.Report, err error) error {
	if c.Bool("json") {
		return p.asJSON(struct {
			auditVerdict
			*audit.Report
		}{verdictOn(err), r}, err)
	}
	if err != nil {
		return err
	}
	return p.tellGood(*r)
}

// tellGood says what is known of a log of which nothing is wrong.
func (p *program) tellGood(r audit.Report) error {
	rows := terminal.Count(int(r.Rows), "row")
	if r.Absent > 0 {
		rows = fmt.Sprintf("%s checked, %d not here", rows, r.Absent)
	}
	lines := []string{fmt.Sprintf("ok: %s, head %s", rows, r.Head)}
	switch point := r.Checkpoint; {
	case point == nil && r.Rows > 0:
		lines = append(lines, "not signed: there is no checkpoint; sandboxmcp audit checkpoint makes one")
	case point == nil:
	default:
		lines = append(lines, fmt.Sprintf("signed: %s, root %s%s", terminal.Count(int(point.Size), "row"), point.Root, dated(point.Time)))
	}
	if r.Checkpoint != nil && r.Unsigned > 0 {
		lines = append(lines, fmt.Sprintf("%s after it not signed yet", plural(r.Unsigned)))
	}
	for _, s := range r.Segments {
		lines = append(lines, fmt.Sprintf("sealed: rows %d to %d in %s%s", s.First, s.Last, s.File, absent(s.Here)))
	}
	for i, line := range append(lines, r.Remarks...) {
		if i > 0 {
			line = "    " + line
		}
		if _, err := fmt.Fprintln(p.Out, terminal.Visible(line)); err != nil {
			return err
		}
	}
	return nil
}

func absent(here bool) string {
	if here {
		return ""
	}
	return ", which is not there"
}

func plural(n int64) string {
	if n == 1 {
		return "1 row is"
	}
	return fmt.Sprintf("%d rows are", n)
}

func dated(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", " + t.Local().Format(time.RFC3339)
}
