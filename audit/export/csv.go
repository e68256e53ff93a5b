package export

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// csvWriter writes CSV (RFC 4180): a record with the columns' names, then a record a row.
type csvWriter struct{ *csv.Writer }

func newCSVWriter(w io.Writer) csvWriter {
	c := csvWriter{csv.NewWriter(w)}
	c.UseCRLF = true
	_ = c.Write([]string{"seq", "time", "kind", "run", "namespace", "data", "prev", "hash"}) // Error returns the error
	return c
}

// Row writes r without buffering: a reader may wait for the row.
func (c csvWriter) Row(r audit.Row) error {
	record := []string{strconv.FormatInt(r.Seq, 10), r.Time.Format(time.RFC3339Nano), r.Kind, r.Run, r.Namespace,
		string(safetext.JSON(r.Data)), r.Prev, r.Hash}
	for i := range record {
		record[i] = escapeCell(record[i])
	}
	_ = c.Write(record)
	return c.Close()
}

// Close writes the heading if there were no rows.
func (c csvWriter) Close() error {
	c.Flush()
	return c.Error()
}

// escapeCell escapes text for a spreadsheet, which would execute some text as a formula
// (https://owasp.org/www-community/attacks/CSV_Injection). The apostrophe makes it text. Some spreadsheets skip leading
// spaces, and treat full-width characters like ASCII.
func escapeCell(text string) string {
	text = safetext.Line(text)
	if begins := strings.TrimLeft(text, "\" \u00a0\u3000"); begins != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(begins)[0]) {
		return "'" + text
	}
	return text
}
