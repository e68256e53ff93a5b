package cli

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
)

// A rowWriter prints rows in one format. What was audited is not ours: nothing in it may reach a
// terminal as a command.
type rowWriter interface {
	Row(audit.Row) error
	Close() error
}

func newRowWriter(format string, w io.Writer, follow bool) (rowWriter, error) {
	switch format {
	case "table":
		return newAuditTable(w, width(w)), nil
	case "json":
		return &jsonWriter{w: w, lines: follow}, nil
	case "csv":
		return export.New(format, w, export.About{})
	}
	return nil, usage("--format table, json or csv", "there is no format %q", format)
}

// jsonWriter prints a JSON array with a line for each row, or just the lines when there is no end.
type jsonWriter struct {
	w     io.Writer
	lines bool
	any   bool
}

func (j *jsonWriter) Row(r audit.Row) error {
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
	_, err = fmt.Fprintf(j.w, "%s%s%s", before, safetext.JSON(b), after)
	return err
}

func (j *jsonWriter) Close() error {
	end := "\n]\n"
	switch {
	case j.lines:
		return nil
	case !j.any:
		end = "[]\n"
	}
	_, err := io.WriteString(j.w, end)
	return err
}

// showRows prints rows in full: a heading, and below it each fact on a line of its own.
func showRows(w io.Writer, rows []audit.Row) error {
	var b strings.Builder
	for i, r := range rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "row %d: %s\n", r.Seq, visible(r.Kind))
		fact(&b, "time", r.Time.Format(time.RFC3339Nano))
		fact(&b, "run", r.Run)
		fact(&b, "namespace", r.Namespace)
		var data map[string]json.RawMessage
		if err := json.Unmarshal(r.Data, &data); err != nil {
			fact(&b, "data", string(r.Data))
		}
		for _, key := range sortedKeys(data) {
			fact(&b, key, plainJSON(data[key]))
		}
		fact(&b, "prev", r.Prev)
		fact(&b, "hash", r.Hash)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func fact(b *strings.Builder, key, value string) {
	fmt.Fprintf(b, "  %-17s %s\n", visible(key), visible(value))
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
