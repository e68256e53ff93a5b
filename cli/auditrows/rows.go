// Package auditrows prints rows of the audit log as a table, as JSON, or in full.
package auditrows

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/export"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

// NewWriter returns the writer for a format: table, json or csv. With follow, JSON is a line for each row instead of an
// array. Audited text is untrusted: no writer sends it to a terminal unescaped.
func NewWriter(format string, w io.Writer, follow bool) (export.Writer, error) {
	switch format {
	case "table":
		return NewAuditTable(w, terminal.Width(w)), nil
	case "json":
		return &JSON{W: w, lines: follow}, nil
	case "csv":
		return export.New(format, w, export.About{})
	}
	return nil, exit.Usage("--format table, json or csv", "unknown format %q", format)
}

// JSON prints rows as a JSON array with a row on each line, or as bare lines if the rows never end.
type JSON struct {
	W     io.Writer
	lines bool
	any   bool
}

func (j *JSON) Row(r audit.Row) error {
	b, err := json.Marshal(export.WithValidData(r))
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

// WriteFacts prints rows in full: a heading, and below it a line for each fact.
func WriteFacts(w io.Writer, rows []audit.Row) error {
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
		for _, key := range slices.Sorted(maps.Keys(data)) {
			value, text := string(data[key]), ""
			if json.Unmarshal(data[key], &text) == nil { // text is printed without quotes, other values as JSON
				value = text
			}
			terminal.Fact(&b, key, value)
		}
		terminal.Fact(&b, "prev", r.Prev)
		terminal.Fact(&b, "hash", r.Hash)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// auditTable prints rows as they come. On a narrow terminal it leaves out the run, which the row's number leads to.
type auditTable struct{ *terminal.Table }

// minNamespaceWidth is the least width, in columns, that has room for the namespace beside the event.
const minNamespaceWidth = 72

func NewAuditTable(w io.Writer, width int) auditTable {
	t := &terminal.Table{W: w, Width: width, Live: true, Columns: []terminal.Column{
		{Name: "ROW", Right: true, Usual: 6}, {Name: "TIME", Usual: 19}, {Name: "KIND", Usual: 20},
		{Name: "NAMESPACE", Usual: 10}, {Name: "RUN", Usual: 26, Spare: true}, {Name: "WHAT"},
	}}
	if t.Narrow() {
		t.Columns[0].Usual, t.Columns[1].Usual, t.Columns[3].Usual = 5, 14, 9
		t.Columns[3].Spare = t.Width < minNamespaceWidth
	}
	return auditTable{t}
}

// Row implements [export.Writer].
func (t auditTable) Row(r audit.Row) error {
	when := time.DateTime
	if t.Narrow() {
		when = "01-02 15:04:05"
	}
	t.Table.Row(strconv.FormatInt(r.Seq, 10), r.Time.Local().Format(when), r.Kind, r.Namespace, r.Run, facts.Summary(r))
	return t.Flush()
}
