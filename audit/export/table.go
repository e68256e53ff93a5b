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

// htmlWriter writes a complete HTML page without scripts or external resources.
type htmlWriter struct {
	w    io.Writer
	page *template.Template
	rows int64
}

func newHTMLWriter(w io.Writer, a About) (*htmlWriter, error) {
	page, err := template.New("").Parse(tablePage)
	if err != nil {
		return nil, err
	}
	return &htmlWriter{w: w, page: page}, page.ExecuteTemplate(w, "head", map[string]string{
		"Scope": safetext.Line(a.Scope), "Version": safetext.Line(a.Version), "Made": a.Made.UTC().Format(time.RFC3339),
	})
}

const tableRow = `<tr id="row-%d"><td>%[1]d</td><td class="t">%s</td><td class="k">%s</td><td>%s</td><td>%s</td><td>%s<code>%s</code></td></tr>` + "\n"

func (t *htmlWriter) Row(r audit.Row) error {
	t.rows++
	_, err := fmt.Fprintf(t.w, tableRow, r.Seq, r.Time.UTC().Format("2006-01-02 15:04:05.000"), escapeHTML(r.Kind), escapeHTML(r.Namespace),
		escapeHTML(r.Run), escapeHTML(facts.Summary(r)), escapeHTML(string(safetext.JSON(r.Data))))
	return err
}

// escapeHTML returns text for HTML, between two tags.
func escapeHTML(text string) string { return template.HTMLEscapeString(safetext.Line(text)) }

// Close writes the foot.
func (t *htmlWriter) Close() error { return t.page.ExecuteTemplate(t.w, "foot", t.rows) }
