package export

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

//go:embed table.html
var tablePage string

// table writes a complete HTML page: no script runs in it, and nothing is loaded.
type table struct {
	w    io.Writer
	page *template.Template
	rows int64
}

func newTable(w io.Writer, a About) (*table, error) {
	page, err := template.New("").Parse(tablePage)
	if err != nil {
		return nil, err
	}
	return &table{w: w, page: page}, page.ExecuteTemplate(w, "head", map[string]string{
		"Scope": safetext.Line(a.Scope), "Version": safetext.Line(a.Version), "Made": a.Made.UTC().Format(time.RFC3339),
	})
}

const tableRow = `<tr id="row-%d"><td>%[1]d</td><td class="t">%s</td><td class="k">%s</td><td>%s</td><td>%s</td><td>%s<code>%s</code></td></tr>` + "\n"

func (t *table) Row(r audit.Row) error {
	t.rows++
	_, err := fmt.Fprintf(t.w, tableRow, r.Seq, r.Time.UTC().Format("2006-01-02 15:04:05.000"), escaped(r.Kind), escaped(r.Namespace),
		escaped(r.Run), escaped(facts.Summary(r)), escaped(string(safetext.JSON(r.Data))))
	return err
}

// escaped returns text for HTML, between two tags.
func escaped(text string) string { return template.HTMLEscapeString(safetext.Line(text)) }

// Close writes the foot.
func (t *table) Close() error { return t.page.ExecuteTemplate(t.w, "foot", t.rows) }
