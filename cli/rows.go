package cli

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
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
		return &tableWriter{w: w}, nil
	case "json":
		return &jsonWriter{w: w, lines: follow}, nil
	case "csv":
		return &csvWriter{w: csv.NewWriter(w)}, nil
	}
	return nil, usage("--format table, json or csv", "there is no format %q", format)
}

// tableWriter prints one line a row, for people. Columns have fixed widths, because rows are
// printed as they come.
type tableWriter struct {
	w      io.Writer
	headed bool
}

const tableLine = "%6s  %-19s  %-20s  %-10s  %-26s  %s\n"

func (t *tableWriter) Row(r audit.Row) error {
	if !t.headed {
		t.headed = true
		if _, err := fmt.Fprintf(t.w, tableLine, "ROW", "TIME", "KIND", "NAMESPACE", "RUN", "WHAT"); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(t.w, tableLine, strconv.FormatInt(r.Seq, 10), r.Time.Local().Format(time.DateTime),
		visible(r.Kind), visible(r.Namespace), visible(r.Run), visible(gist(r)))
	return err
}

func (t *tableWriter) Close() error { return nil }

// gist is what matters most in a row, on one line.
func gist(r audit.Row) string {
	var d struct {
		Name     string   `json:"name"`
		Ended    string   `json:"ended"`
		ExitCode int      `json:"exit_code"`
		Signal   string   `json:"signal"`
		WallMS   float64  `json:"wall_ms"`
		Reason   string   `json:"reason"`
		Limit    string   `json:"limit"`
		Secrets  []string `json:"secrets"`
	}
	if json.Unmarshal(r.Data, &d) != nil {
		return ""
	}
	var words []string
	if d.Name != "" {
		words = append(words, d.Name)
	}
	switch {
	case d.Reason != "":
		words = append(words, d.Reason)
	case d.Ended == "signal":
		words = append(words, d.Signal)
	case d.Ended == "exit":
		words = append(words, fmt.Sprintf("exit %d", d.ExitCode))
	case d.Ended != "":
		words = append(words, d.Ended)
	case d.Limit != "":
		words = append(words, "limit of "+d.Limit)
	case r.Kind == "vault.accessed":
		words = append(words, d.Secrets...)
	}
	if d.WallMS > 0 {
		words = append(words, fmt.Sprintf("in %.2f s", d.WallMS/1000))
	}
	return strings.Join(words, " ")
}

// jsonWriter prints a JSON array with a line for each row, or just the lines when there is no end.
type jsonWriter struct {
	w     io.Writer
	lines bool
	any   bool
}

func (j *jsonWriter) Row(r audit.Row) error {
	b, err := json.Marshal(r)
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
	_, err = fmt.Fprintf(j.w, "%s%s%s", before, visibleJSON(b), after)
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

type csvWriter struct {
	w      *csv.Writer
	headed bool
}

func (c *csvWriter) Row(r audit.Row) error {
	if err := c.head(); err != nil {
		return err
	}
	record := []string{strconv.FormatInt(r.Seq, 10), r.Time.Format(time.RFC3339Nano), r.Kind, r.Run, r.Namespace,
		string(visibleJSON(r.Data)), r.Prev, r.Hash}
	for i := range record {
		record[i] = visible(record[i])
	}
	if err := c.w.Write(record); err != nil {
		return err
	}
	c.w.Flush() // whoever follows wants to see it now
	return c.w.Error()
}

func (c *csvWriter) head() error {
	if c.headed {
		return nil
	}
	c.headed = true
	return c.w.Write([]string{"seq", "time", "kind", "run", "namespace", "data", "prev", "hash"})
}

func (c *csvWriter) Close() error {
	if err := c.head(); err != nil {
		return err
	}
	c.w.Flush()
	return c.w.Error()
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
