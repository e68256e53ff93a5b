package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/export"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// ends are the rows that stand for runs in a list of them.
var ends = []string{"execution.completed", "execution.failed", "execution.timeout", "execution.refused"}

// pageRows is how many rows one page has.
const pageRows = 50

// entry is a row of a list.
type entry struct {
	Row audit.Row
	facts.Facts
	Summary string
}

func entryOf(r audit.Row) entry { f := facts.Of(r); return entry{r, f, f.Summary(r)} }

// Time is when the row was written, Namespace whose it is, and so on: parts of the row for templates.
func (l entry) Time() time.Time       { return l.Row.Time }
func (l entry) Namespace() string     { return l.Row.Namespace }
func (l entry) Seq() int64            { return l.Row.Seq }
func (l entry) Hash() string          { return l.Row.Hash }
func (l entry) Data() json.RawMessage { return l.Row.Data }

// Outcome is how a run ended, in one word.
func (l entry) Outcome() string {
	if l.Row.Kind == "execution.refused" {
		return "refused"
	}
	return cmp.Or(l.Ended, strings.TrimPrefix(l.Row.Kind, "execution."))
}

// Headline says what ran, in a few words, or of any other row what it is about.
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
		words = append(words, word("one_file"))
	case l.Artifacts > 1:
		words = append(words, fmt.Sprintf("%d %s", l.Artifacts, word("n_files")))
	}
	if l.Facts.Reason != "" {
		words = append(words, l.Facts.Reason)
	}
	return strings.Join(words, " · ")
}

// query is what a search asks for, as its form has it.
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

// day turns a date of a form into a moment, so many days later; what is none stays for the API to refuse.
func day(text string, later int) string {
	if t, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return t.AddDate(0, 0, later).Format(time.RFC3339)
	}
	return text
}

// outcomes are those of the form.
var outcomes = []string{"ok", "exit", "signal", "timeout", "oom", "limit", "refused", "cancelled"}

// ran lists what ran.
func (p *Page) ran(w http.ResponseWriter, r *http.Request, v *visitor) {
	asked := r.URL.Query()
	found, err := p.c.Client.Log(r.Context(), query(asked))
	if f := (*control.Failure)(nil); errors.As(err, &f) && f.Status == http.StatusBadRequest { // it was typed wrong
		p.show(w, v, "ran", word("ran"), map[string]any{"Asked": asked, "Outcomes": outcomes, "Problem": f.Text})
		return
	}
	if err != nil {
		p.failed(w, r, err)
		return
	}
	rows := []entry{}
	for _, row := range found.Rows {
		rows = append(rows, entryOf(row))
	}
	older := ""
	if found.Next > 0 {
		next := url.Values{}
		for name, values := range asked {
			next[name] = values
		}
		next.Set("before", strconv.FormatInt(found.Next, 10))
		older = "ran?" + next.Encode()
	}
	all := url.Values{}
	for name, values := range asked {
		if len(values) > 0 && values[0] != "" && name != "before" {
			all.Set(name, values[0])
		}
	}
	p.show(w, v, "ran", word("ran"), map[string]any{"Asked": asked, "Outcomes": outcomes, "Rows": rows, "Older": older, "Newest": asked.Get("before") == "",
		"Again": "ran?" + all.Encode(), "CSV": "export?format=csv&" + all.Encode(), "JSON": "export?format=jsonl&" + all.Encode(), "Missing": found.Missing, "All": asked.Get("rows") == "all", "Searching": len(all) > 0})
}

// told is a run's whole story.
type tale struct {
	control.Story
	Live     bool
	End      *entry
	Start    *entry
	Rows     []entry
	About    []entry
	Egress   []entry // decisions, as they were made
	Code     *codeView
	Stdout   *outputView
	Stderr   *outputView
	Stored   *control.Stored
	Evidence bool
	Token    string
}

type outputView struct {
	Name  string
	Spans []span
	Size  int64
	Cut   bool
}

// run shows one run: live while it is under way, and else its whole story.
func (p *Page) run(w http.ResponseWriter, r *http.Request, v *visitor) {
	ctx, id := r.Context(), strings.ToUpper(r.URL.Query().Get("id"))
	t := tale{Token: v.token}
	running, err := p.c.Client.Running(ctx, "")
	if err == nil {
		for _, one := range running {
			t.Live = t.Live || one.Run == id
		}
		t.Story, err = p.c.Client.Story(ctx, id)
	}
	if f := (*control.Failure)(nil); errors.As(err, &f) && f.Status == http.StatusNotFound && t.Live { // it waits, and has no row yet
		t.Story, err = control.Story{Run: id}, nil
	}
	if err != nil {
		p.failed(w, r, err)
		return
	}
	t.tell()
	if !t.Live {
		p.remains(r, &t)
	}
	p.show(w, v, "run", word("run")+" "+id, map[string]any{"Story": t})
}

// tell sorts the rows of a story.
func (t *tale) tell() {
	for _, row := range t.Story.Rows {
		l := entryOf(row)
		t.Rows = append(t.Rows, l)
		switch {
		case row.Kind == "execution.started":
			t.Start = &l
		case row.Kind == "execution.captured":
			t.captured(row)
		case strings.HasPrefix(row.Kind, "egress."):
			t.Egress = append(t.Egress, l)
		case strings.HasPrefix(row.Kind, "execution."):
			t.End = &l
			t.Evidence = l.Receipt != ""
		}
	}
	for _, row := range t.Story.About {
		t.About = append(t.About, entryOf(row))
	}
}

// captured takes the text that the log has of a run, where the operator wants that.
func (t *tale) captured(row audit.Row) {
	var c struct{ Code, Stdout, Stderr *string }
	if json.Unmarshal(row.Data, &c) != nil {
		return
	}
	if c.Code != nil {
		t.Code = &codeView{Code: control.Code{Code: *c.Code}}
	}
	for _, one := range []struct {
		text *string
		to   **outputView
		name string
	}{{c.Stdout, &t.Stdout, "stdout"}, {c.Stderr, &t.Stderr, "stderr"}} {
		if one.text != nil && *one.text != "" {
			*one.to = &outputView{one.name, new(screen).write([]byte(*one.text)), int64(len(*one.text)), false}
		}
	}
}

// maxInline is how much of an output stands in a page, in bytes; the rest is for who fetches it.
const maxInline = 128 << 10

// remains adds what is kept of a run, and what is dangerous in its code.
func (p *Page) remains(r *http.Request, t *tale) {
	ctx := r.Context()
	if stored, err := p.c.Client.Stored(ctx, "", t.Run); err == nil && len(stored) == 1 {
		t.Stored = &stored[0]
		for name, to := range map[string]**outputView{"stdout": &t.Stdout, "stderr": &t.Stderr} {
			part, err := p.c.Client.StoredPart(ctx, t.Run, name, 0, maxInline)
			if err == nil && len(part.Data) > 0 {
				*to = &outputView{name, new(screen).write(part.Data), part.Size, part.Size > int64(len(part.Data))}
			}
		}
	}
	if t.Code == nil {
		return
	}
	language := ""
	for _, l := range []*entry{t.End, t.Start} {
		if l != nil {
			language = cmp.Or(language, l.Language)
		}
	}
	code := t.Code.Code.Code
	if c, err := p.c.Client.Review(ctx, cmp.Or(language, "command"), code); err == nil {
		t.Code = marked(c)
	} else {
		t.Code = marked(control.Code{Code: code, Language: language})
	}
}

// codeView is code, line by line.
type codeView struct {
	control.Code
	Lines []codeLine
}

type codeLine struct {
	N       int
	Text    string
	Dangers []danger
}

type danger struct{ Severity, Reason string }

// maxLines is how many lines of code are shown.
const maxLines = 5000

// marked puts what is dangerous beside its lines.
func marked(c control.Code) *codeView {
	v := &codeView{Code: c}
	for i, line := range strings.Split(strings.TrimSuffix(c.Code, "\n"), "\n") {
		if i == maxLines {
			break
		}
		one := codeLine{N: i + 1, Text: safetext.Text(line)}
		for _, d := range c.Dangers {
			if d.Line == i+1 || d.Line == 0 && i == 0 {
				one.Dangers = append(one.Dangers, danger{d.Severity, safetext.Line(d.Reason)})
			}
		}
		v.Lines = append(v.Lines, one)
	}
	return v
}

// evidence hands out what a browser checks a run with.
func (p *Page) evidence(w http.ResponseWriter, r *http.Request, _ *visitor) {
	e, err := p.c.Client.Evidence(r.Context(), r.URL.Query().Get("id"))
	if err != nil {
		p.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(e)
}

// save has a browser save what follows under a name, and never show it.
func save(h http.Header, name string) {
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename*=UTF-8''%s", strings.ReplaceAll(url.QueryEscape(fileName(name)), "+", "%20")))
}

// fileName is a name that a browser can give a file on any system, and people can read.
func fileName(name string) string {
	name = path.Base(strings.ToValidUTF8(name, "_"))
	name = strings.Map(func(r rune) rune {
		if safetext.Hidden(r) || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, name)
	return cmp.Or(strings.Trim(safetext.Clip(name, 120), ". "), "file")
}

// filePart is how much of a file is fetched at once, in bytes.
const filePart = 1 << 20

// file hands out what is kept of a run, or its receipt.
func (p *Page) file(w http.ResponseWriter, r *http.Request, _ *visitor) {
	ctx, id, name := r.Context(), r.URL.Query().Get("id"), r.URL.Query().Get("name")
	if name == "receipt" || name == "proof" {
		e, err := p.c.Client.Evidence(ctx, id)
		if err != nil {
			p.failed(w, r, err)
			return
		}
		body, as := e.Receipt, e.Run+".receipt.intoto.json"
		if name == "proof" {
			body, as = []byte(e.Proof), e.Run+".tlog-proof"
		}
		save(w.Header(), as)
		_, _ = w.Write(body)
		return
	}
	for offset := int64(0); ; {
		part, err := p.c.Client.StoredPart(ctx, id, name, offset, filePart)
		switch {
		case err != nil && offset == 0:
			p.failed(w, r, err)
			return
		case err != nil:
			panic(http.ErrAbortHandler) // or what came would look whole
		case offset == 0:
			save(w.Header(), name)
			w.Header().Set("Content-Length", strconv.FormatInt(part.Size, 10))
		}
		if _, err := w.Write(part.Data); err != nil {
			return
		}
		if offset += int64(len(part.Data)); offset >= part.Size || len(part.Data) == 0 {
			return
		}
	}
}

// maxExport is how many rows one export has.
const maxExport = 100_000

// export hands out the rows of a search.
func (p *Page) export(w http.ResponseWriter, r *http.Request, _ *visitor) {
	format := r.URL.Query().Get("format")
	q := query(r.URL.Query())
	q.Limit = 1000
	var buffer bytes.Buffer
	out, err := export.New(format, &buffer, export.About{Version: p.c.Version, Made: time.Now(), Scope: word("export_scope")})
	if err != nil {
		p.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	for n := 0; n < maxExport; {
		found, err := p.c.Client.Log(r.Context(), q)
		if err != nil && n == 0 {
			p.failed(w, r, err)
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if n == 0 {
			save(w.Header(), "sandboxmcp-log."+format)
		}
		for _, row := range found.Rows {
			if err := out.Row(row); err != nil {
				panic(http.ErrAbortHandler)
			}
		}
		if _, err := buffer.WriteTo(w); err != nil {
			return
		}
		if n, q.Before = n+len(found.Rows), found.Next; found.Next == 0 {
			break
		}
	}
	if out.Close() == nil {
		_, _ = buffer.WriteTo(w)
	}
}

// Outputs are what there is of the run's output.
func (t tale) Outputs() (all []*outputView) {
	for _, o := range []*outputView{t.Stdout, t.Stderr} {
		if o != nil {
			all = append(all, o)
		}
	}
	return all
}
