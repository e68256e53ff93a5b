package page

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// update is one message to a browser about a run.
type update struct {
	Stream  string `json:"stream,omitempty"` // "out" or "err"
	Spans   []span `json:"spans,omitempty"`
	Picture string `json:"picture,omitempty"` // a data URL
	Value   string `json:"value,omitempty"`   // as text
	Event   string `json:"event,omitempty"`   // description
	Bad     bool   `json:"bad,omitempty"`     // it was refused, or failed
	Time    string `json:"time,omitempty"`
}

// Output is sent at the pace of the browser: unsent output is cut in the middle when more arrives, because people
// look at the end.
const (
	sendEvery = 50 * time.Millisecond
	maxUnsent = 256 << 10 // bytes
)

// output streams the output of a run.
func (p *Page) output(w http.ResponseWriter, r *http.Request, v *visitor) error {
	out := stream(w, r)
	defer out.Close()
	q := &queue{more: make(chan struct{}, 1)}
	watched := make(chan error, 1)
	go func() { watched <- p.c.Client.Watch(r.Context(), r.URL.Query().Get("id"), q.add) }()
	var err, gone error
	for over := false; !over && gone == nil; {
		select {
		case err = <-watched:
			over = true
			if s, ok := p.typed.Load(strings.ToUpper(r.URL.Query().Get("id"))); ok && s.(*typedCell).by == v && !q.spoke {
				err = nil
				s.(*typedCell).sendParts(r.Context(), q)
			}
		case <-q.more:
		case <-time.After(15 * time.Second):
			p.visitors.touch(v)
		}
		for _, s := range q.popUpdates() {
			gone = out.SendEvent("said", s)
		}
		if !over { // collect small pieces; the first was sent at once
			select {
			case <-time.After(sendEvery):
			case <-r.Context().Done():
			}
		}
	}
	if r.Context().Err() != nil || gone != nil {
		return nil
	}
	why := ""
	if err != nil {
		why = err.Error()
	}
	_ = out.SendEvent("over", map[string]string{"why": why})
	return nil
}

// queue holds a bounded number of updates for a browser.
type queue struct {
	mu      sync.Mutex
	screens [2]screen
	updates []update
	size    int
	more    chan struct{}
	spoke   bool // the run has output or displays
}

// add takes a part of a run's stream.
func (q *queue) add(part control.Part) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spoke = q.spoke || part.Display != nil
	for n, text := range part.Output() {
		if len(text) > 0 {
			q.spoke = true
			q.pushUpdate(update{Stream: []string{"out", "err"}[n], Spans: q.screens[n].write(text)}, len(text))
		}
	}
	if part.Display != nil {
		s := displayUpdate(part.Display)
		q.pushUpdate(s, len(s.Picture)+len(s.Value))
	}
	if part.Event != nil {
		if s, ok := describe(*part.Event); ok {
			q.pushUpdate(s, len(s.Event))
		}
	}
	select {
	case q.more <- struct{}{}:
	default:
	}
	return nil
}

// pushUpdate adds an update, and drops the oldest output if there is too much.
func (q *queue) pushUpdate(s update, size int) {
	q.updates = append(q.updates, s)
	q.size += size
	if q.size <= maxUnsent {
		return
	}
	rest := q.updates[:0]
	dropped := false
	for _, s := range slices.Clone(q.updates) {
		n := 0
		for _, one := range s.Spans {
			n += len(one.Text)
		}
		if n > 0 && q.size > maxUnsent/2 {
			q.size -= n
			if !dropped {
				dropped = true
				rest = append(rest, update{Event: wordFor("output_left_out")})
			}
			continue
		}
		rest = append(rest, s)
	}
	q.updates = rest
}

func (q *queue) popUpdates() []update {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.updates
	q.updates, q.size = nil, 0
	return all
}

// raster are the displayed types of pictures. Vector formats such as SVG are shown as text.
var raster = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// maxPicture bounds a picture, in bytes of base64.
const maxPicture = 8 << 20

// displayUpdate converts a display to a picture, or else to text.
func displayUpdate(b kernel.Bundle) update {
	for _, kind := range raster {
		data := strings.Join(strings.Fields(b[kind]), "")
		if _, err := base64.StdEncoding.DecodeString(data); data != "" && err == nil && len(data) <= maxPicture {
			return update{Picture: "data:" + kind + ";base64," + data, Value: short(b["text/plain"])}
		}
	}
	if text, ok := b["text/plain"]; ok {
		return update{Value: short(text)}
	}
	for _, kind := range slices.Sorted(maps.Keys(b)) {
		return update{Value: safetext.Line(safetext.Clip(kind, 100)) + "\n" + short(b[kind])}
	}
	return update{}
}

// maxValue bounds the displayed part of a value, in bytes.
const maxValue = 64 << 10

func short(text string) string { return safetext.Text(safetext.Clip(text, maxValue)) }

// describe describes an event about a run.
func describe(e event.Event) (update, bool) {
	s := update{Time: e.Time.Local().Format(time.TimeOnly)}
	text := func(key string) string {
		t, _ := e.Data[key].(string)
		return safetext.Line(safetext.Clip(t, 500))
	}
	switch {
	case strings.HasPrefix(e.Name, "egress."):
		s.Bad = e.Name == event.EgressDenied
		s.Event = wordFor(e.Name) + " " + cmp.Or(text("name"), text("what"))
		if why := text("reason"); why != "" {
			s.Event += ": " + why
		}
	case e.Name == event.ResourceExceeded:
		s.Bad, s.Event = true, wordFor("limit_hit")+" "+text("limit")
	case e.Name == event.ExecutionCompleted, e.Name == event.ExecutionTimeout, e.Name == event.ExecutionFailed:
		s.Bad = text("ended") != "ok"
		s.Event = wordFor("ended") + " " + cmp.Or(text("ended"), text("reason"))
		if code, err := json.Marshal(e.Data["exit_code"]); err == nil && text("ended") == "exit" {
			s.Event += " " + string(code)
		}
	default:
		return s, false
	}
	return s, true
}
