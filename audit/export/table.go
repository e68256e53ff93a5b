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
	w      io.Writer
	about  About
	page   *template.Template
	headed bool
	rows   int64
}

const tableRow = `<tr id="row-%d"><td>%[1]d</td><td class="t">%s</td><td class="k">%s</td><td>%s</td><td>%s</td><td>%s<code>%s</code></td></tr>` + "\n"

func (t *table) Row(r audit.Row) error {
	if err := t.head(); err != nil {
		return err
	}
	t.rows++
	_, err := fmt.Fprintf(t.w, tableRow, r.Seq, r.Time.UTC().Format("2006-01-02 15:04:05.000"), escaped(r.Kind), escaped(r.Namespace),
		escaped(r.Run), escaped(facts.Summary(r)), escaped(string(safetext.JSON(r.Data))))
	return err
}

// escaped returns text for HTML, between two tags.
func escaped(text string) string { return template.HTMLEscapeString(safetext.Line(text)) }

func (t *table) head() (err error) {
	if t.headed {
		return nil
	}
	t.headed = true
	if t.page, err = template.New("").Parse(tablePage); err != nil {
		return err
	}
	return t.page.ExecuteTemplate(t.w, "head", map[string]string{
		"Scope": safetext.Line(t.about.Scope), "Version": safetext.Line(t.about.Version), "Made": t.about.Made.UTC().Format(time.RFC3339),
	})
}

func (t *table) Close() error {
	if err := t.head(); err != nil {
		return err
	}
	return t.page.ExecuteTemplate(t.w, "foot", t.rows)
}
