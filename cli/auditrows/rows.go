// Package auditrows prints rows of the audit log: as a table, as JSON, or each in full.
package auditrows

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/export"
	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

// Writer prints rows in one format. What was audited is not ours: nothing in it may reach a
// terminal as a command.
type Writer interface {
	Row(audit.Row) error
	Close() error
}

// New returns the writer for a format: table, json or csv. With follow, JSON has a line for each row and no array.
func New(format string, w io.Writer, follow bool) (Writer, error) {
	switch format {
	case "table":
		return NewAuditTable(w, terminal.Width(w)), nil
	case "json":
		return &JSON{W: w, lines: follow}, nil
	case "csv":
		return export.New(format, w, export.About{})
	}
	return nil, exit.Usage("--format table, json or csv", "there is no format %q", format)
}

// JSON prints a JSON array with a line for each row, or just the lines when there is no end.
type JSON struct {
	W     io.Writer
	lines bool
	any   bool
}

func (j *JSON) Row(r audit.Row) error {
	b, err := json.Marshal(export.Sound(r))
	if err != nil {
		return err
	}
	before, after := "", "\n"
	switch {
	case !j.lines && !j.any:
		before, after = "[\n", ""
	case !j.lines:
		before, after = ",\n", ""
	}
	j.any = true
	_, err = fmt.Fprintf(j.W, "%s%s%s", before, safetext.JSON(b), after)
	return err
}

func (j *JSON) Close() error {
	end := "\n]\n"
	switch {
	case j.lines:
		return nil
	case !j.any:
		end = "[]\n"
	}
	_, err := io.WriteString(j.W, end)
	return err
}

// Show prints rows in full: a heading, and below it each fact on a line of its own.
func Show(w io.Writer, rows []audit.Row) error {
	var b strings.Builder
	for i, r := range rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "row %d: %s\n", r.Seq, terminal.Visible(r.Kind))
		terminal.Fact(&b, "time", r.Time.Format(time.RFC3339Nano))
		terminal.Fact(&b, "run", r.Run)
		terminal.Fact(&b, "namespace", r.Namespace)
		var data map[string]json.RawMessage
		if err := json.Unmarshal(r.Data, &data); err != nil {
			terminal.Fact(&b, "data", string(r.Data))
		}
		for _, key := range sortedKeys(data) {
			terminal.Fact(&b, key, plainJSON(data[key]))
		}
		terminal.Fact(&b, "prev", r.Prev)
		terminal.Fact(&b, "hash", r.Hash)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// plainJSON returns text without its quotes, and other values as they are.
func plainJSON(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func sortedKeys(m map[string]json.RawMessage) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
