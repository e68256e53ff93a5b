package page

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// ends are the kinds of rows that represent runs in a list.
var ends = []string{"execution.completed", "execution.failed", "execution.timeout", "execution.refused", "execution.lost"}

// pageRows is the number of rows per page.
const pageRows = 50

// entry is a row of a list.
type entry struct {
	Row audit.Row
	facts.Facts
	Summary string
}

func entryOf(r audit.Row) entry { f := facts.Parse(r); return entry{r, f, f.Summary(r)} }

// These methods return parts of the row for templates.
func (l entry) Time() time.Time       { return l.Row.Time }
func (l entry) Namespace() string     { return l.Row.Namespace }
func (l entry) Seq() int64            { return l.Row.Seq }
func (l entry) Hash() string          { return l.Row.Hash }
func (l entry) Data() json.RawMessage { return l.Row.Data }

// Outcome returns the end of a run in one word.
func (l entry) Outcome() string {
	if l.Row.Kind == "execution.refused" {
		return "refused"
	}
	return cmp.Or(l.Ended, strings.TrimPrefix(l.Row.Kind, "execution."))
}

// Headline describes a run in a few words, or the subject of any other row.
func (l entry) Headline() string {
	if l.Row.Kind == "execution.started" || !slices.Contains(ends, l.Row.Kind) {
		return l.Summary
	}
	words := []string{cmp.Or(strings.Join(l.Command, " "), l.Facts.Name, strings.TrimSpace(l.Tool+" "+l.What), l.Language)}
	if l.Language != "" && l.Command == nil {
		words = append(words, l.Language)
	}
	for _, d := range l.Egress[:min(len(l.Egress), 3)] {
		words = append(words, d.Name)
	}
	switch {
	case l.Artifacts == 1:
		words = append(words, wordFor("one_file"))
	case l.Artifacts > 1:
		words = append(words, fmt.Sprintf("%d %s", l.Artifacts, wordFor("n_files")))
	}
	if l.Facts.Reason != "" {
		words = append(words, l.Facts.Reason)
	}
	return strings.Join(words, " · ")
}

// query converts a search form to a query.
func query(v url.Values) control.LogQuery {
	q := control.LogQuery{Namespace: v.Get("namespace"), Session: v.Get("session"), Agent: v.Get("agent"), Outcome: v.Get("outcome"),
		Domain: v.Get("domain"), Secret: v.Get("secret"), Artifact: v.Get("artifact"), Text: v.Get("text"), Run: v.Get("of"),
		Since: day(v.Get("since"), 0), Until: day(v.Get("until"), 1), Limit: pageRows}
	if v.Get("rows") != "all" {
		q.Kinds = ends
	}
	q.Before, _ = strconv.ParseInt(v.Get("before"), 10, 64)
	return q
}

// day converts a date of a form to a time, some days later; an invalid date stays for the API to refuse.
func day(text string, later int) string {
	if t, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return t.AddDate(0, 0, later).Format(time.RFC3339)
	}
	return text
}

// outcomes are the choices of the form.
var outcomes = []string{"ok", "exit", "signal", "timeout", "oom", "limit", "refused", "cancelled"}

// ran lists finished runs.
func (p *Page) ran(w http.ResponseWriter, r *http.Request, v *visitor) error {
	asked := r.URL.Query()
	found, err := control.Call(r.Context(), p.c.Client, control.SearchLog, query(asked))
	if f := (*control.Failure)(nil); errors.As(err, &f) && f.Status == http.StatusBadRequest { // invalid input
		p.renderSection(w, v, "ran", wordFor("ran"), map[string]any{"Asked": asked, "Outcomes": outcomes, "Problem": f.Text})
		return nil
	}
	if err != nil {
		return err
	}
	rows := []entry{}
	for _, row := range found.Rows {
		rows = append(rows, entryOf(row))
	}
	older := ""
	if found.Next > 0 {
		next := maps.Clone(asked)
		next.Set("before", strconv.FormatInt(found.Next, 10))
		older = "ran?" + next.Encode()
	}
	all := url.Values{}
	for name, values := range asked {
		if len(values) > 0 && values[0] != "" && name != "before" {
			all.Set(name, values[0])
		}
	}
	return p.renderSection(w, v, "ran", wordFor("ran"), map[string]any{"Asked": asked, "Outcomes": outcomes, "Rows": rows, "Older": older,
		"Newest": asked.Get("before") == "",
		"Again":  "ran?" + all.Encode(), "CSV": "export?format=csv&" + all.Encode(), "JSON": "export?format=jsonl&" + all.Encode(),
		"All": asked.Get("rows") == "all", "Searching": len(all) > 0})
}
