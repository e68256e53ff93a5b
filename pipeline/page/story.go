package page

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// runStory has all data about a run.
type runStory struct {
	control.Story
	Live     bool
	End      *entry
	Start    *entry
	Rows     []entry
	About    []entry
	Egress   []entry // decisions, in order
	Code     *codeView
	Stdout   *outputView
	Stderr   *outputView
	Stored   *control.Stored
	Displays []update // stored value, pictures and error
	Left     int      // number of omitted displays
	Evidence bool
	Token    string
}

type outputView struct {
	Name  string
	Spans []span
	Size  int64
	Cut   bool
	Lost  int64 // bytes cut at the end of the run
}

// run shows one run: live while it runs, later with all of its data.
func (p *Page) run(w http.ResponseWriter, r *http.Request, v *visitor) error {
	ctx, id := r.Context(), strings.ToUpper(r.URL.Query().Get("id"))
	t := runStory{Token: v.token}
	running, err := control.Call(ctx, p.c.Client, control.ListRunning, control.InNamespace{})
	if err == nil {
		for _, one := range running {
			t.Live = t.Live || one.Run == id
		}
		t.Story, err = control.Call(ctx, p.c.Client, control.GetStory, control.OfRun{ID: id})
	}
	if f := (*control.Failure)(nil); errors.As(err, &f) && f.Status == http.StatusNotFound && t.Live { // a waiting run has no row yet
		t.Story, err = control.Story{Run: id}, nil
	}
	if err != nil {
		return err
	}
	t.readRows()
	if !t.Live {
		p.addStored(r, &t)
	}
	return p.renderSection(w, v, "run", wordFor("run")+" "+id, map[string]any{"Story": t})
}

// readRows sorts the rows of a run by kind.
func (t *runStory) readRows() {
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

// captured adds the captured text of a run, if the log has it.
func (t *runStory) captured(row audit.Row) {
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
			*one.to = &outputView{one.name, new(screen).write([]byte(*one.text)), int64(len(*one.text)), false, 0}
		}
	}
}

// maxInline bounds the output of a run on its page, in bytes; the rest can be downloaded.
const maxInline = 128 << 10

// addStored adds the stored results of a run, and the dangerous places in its code.
func (p *Page) addStored(r *http.Request, t *runStory) {
	ctx := r.Context()
	if stored, err := control.Call(ctx, p.c.Client, control.ListStored, control.StoredQuery{Run: t.Run}); err == nil && len(stored) == 1 {
		t.Stored = &stored[0]
		t.Displays, t.Left = p.displays(ctx, t.Run)
		for name, to := range map[string]**outputView{"stdout": &t.Stdout, "stderr": &t.Stderr} {
			part, err := control.Call(ctx, p.c.Client, control.ReadStored, control.PartQuery{OfRun: control.OfRun{ID: t.Run}, Name: name, Offset: 0,
				Length: maxInline})
			if err == nil && len(part.Data) > 0 {
				*to = &outputView{name, new(screen).write(part.Data), part.Size, part.Size > int64(len(part.Data)), 0}
			}
		}
		for o, n := range map[*outputView]int64{t.Stdout: stored[0].StdoutCut, t.Stderr: stored[0].StderrCut} {
			if o != nil {
				o.Lost = n
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
	if c, err := control.Call(ctx, p.c.Client, control.ReviewCode, control.CodeQuery{Language: cmp.Or(language, "command"), Code: code}); err == nil {
		t.Code = marked(c)
	} else {
		t.Code = marked(control.Code{Code: code, Language: language})
	}
}

// Bounds of the displays on the page of a run. Its result, which can be downloaded, has all.
const (
	maxResult   = 24 << 20 // bytes
	maxDisplays = 20
)

// displays returns the value and displays of a run, and the number of omitted ones.
func (p *Page) displays(ctx context.Context, run string) (list []update, left int) {
	var raw []byte
	for {
		part, err := control.Call(ctx, p.c.Client, control.ReadStored, control.PartQuery{OfRun: control.OfRun{ID: run}, Name: "result", Offset: int64(len(raw)), Length: 4 << 20})
		if err != nil || part.Size > maxResult {
			return nil, 0
		}
		if raw = append(raw, part.Data...); int64(len(raw)) >= part.Size || len(part.Data) == 0 {
			break
		}
	}
	var r struct {
		Value    kernel.Bundle   `json:"value"`
		Displays []kernel.Bundle `json:"displays"`
		Error    *kernel.Error   `json:"error"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return nil, 0
	}
	if r.Value != nil {
		r.Displays = append(r.Displays, r.Value)
	}
	for i, d := range r.Displays {
		if len(list) == maxDisplays {
			left = len(r.Displays) - i
			break
		}
		list = append(list, displayUpdate(d))
	}
	if r.Error != nil {
		list = append(list, update{Value: short(r.Error.Traceback), Bad: true})
	}
	return list, left
}

// Outputs returns the available outputs of the run.
func (t runStory) Outputs() (all []*outputView) {
	for _, o := range []*outputView{t.Stdout, t.Stderr} {
		if o != nil {
			all = append(all, o)
		}
	}
	return all
}
