package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// view is the data of a page.
type view struct {
	Title   string
	Section string
	User    string // name of the signed-in person; "" is nobody
	Token   string
	Up      string // relative path of our files
	Data    map[string]any
}

// words has all texts of the page, in one file for translation.
var words = sync.OnceValue(func() map[string]string {
	body, _ := assets.ReadFile("assets/words.json")
	all := map[string]string{}
	_ = json.Unmarshal(body, &all) // tests check it
	return all
})

// wordFor returns a text of the page by its key.
func wordFor(key string) string {
	if text, ok := words()[key]; ok {
		return text
	}
	return key
}

var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"w":       wordFor,
		"line":    safetext.Line,
		"text":    safetext.Text,
		"bytes":   bytesText,
		"ms":      millis,
		"local":   func(t time.Time) string { return t.Local().Format(time.DateTime) },
		"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"ago":     ago,
		"short":   func(n int, s string) string { return safetext.Line(safetext.Clip(s, n)) },
		"json":    indented,
		"add":     func(a, b int64) int64 { return a + b },
		"edition": edition,
		"mega":    func(mb int64) string { return bytesText(mb << 20) },
		"left":    func(d time.Duration) string { return max(0, d).Round(time.Second).String() },
		"num":     func(f float64) string { return fmt.Sprintf("%.2f", f) },
		"coord":   func(f float64) string { return fmt.Sprintf("%.1f", f) },
		"hold":    durationText,
		"picture": func(u update) template.URL { return template.URL(u.Picture) }, // checked by displayUpdate
		"mega20":  func(mb int64) int64 { return mb << 20 },
	}).ParseFS(assets, "assets/*.html"))
})

// durationText formats the duration of an approval.
func durationText(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	text := d.String()
	if d >= time.Minute {
		text = strings.TrimSuffix(text, "0s")
	}
	if d >= time.Hour {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// ago formats the time since t.
func ago(t time.Time) string {
	d := time.Since(t)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", max(0, d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// indented formats JSON for people, with nothing hidden.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return safetext.Text(string(raw))
	}
	return safetext.Text(b.String())
}

// part renders a part of a page as HTML.
func (p *Page) part(name string, data any) string {
	var b strings.Builder
	if err := templates().ExecuteTemplate(&b, name, data); err != nil {
		p.c.Log.Error("page: a part can't be made: this is a bug of sandboxmcp", "part", name, "error", err)
		return ""
	}
	return b.String()
}

// renderSection answers with a page for a signed-in person.
func (p *Page) renderSection(w http.ResponseWriter, v *visitor, section, title string, data map[string]any) error {
	p.render(w, http.StatusOK, section, view{Title: title, Section: section, User: v.identity.String(), Token: v.token, Data: data})
	return nil
}

// renderPart answers with a part of a page.
func (p *Page) renderPart(w http.ResponseWriter, name string, data any) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write([]byte(p.part(name, data)))
	return nil
}

// render answers with a page, or with an error if rendering fails.
func (p *Page) render(w http.ResponseWriter, status int, name string, v view) {
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, name+"_page", v); err != nil {
		p.c.Log.Error("page: a page can't be made: this is a bug of sandboxmcp", "page", name, "error", err)
		http.Error(w, wordFor("failed_title"), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
