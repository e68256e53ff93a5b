package control

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// TestRecords: rows are found page by page, the newest first and each once, and a run's story has all of it.
func TestRecords(t *testing.T) {
	p := overHTTP(t)
	c := LocalClient(p.listener.api)
	ctx := identity.With(t.Context(), identity.Identity{Name: "boss", Source: identity.FromToken, Kind: identity.Person,
		Namespaces: identity.All()})
	for range 5 {
		p.exec(p.mine, "exit 3")
	}
	all, err := Call(ctx, c, SearchLog, LogQuery{Limit: 1000})
	must(t, err)
	var paged []int64
	for q := (LogQuery{Limit: 3}); ; {
		found, err := Call(ctx, c, SearchLog, q)
		must(t, err)
		for _, r := range found.Rows {
			paged = append(paged, r.Seq)
		}
		if q.Before = found.Next; found.Next == 0 {
			break
		}
	}
	if len(paged) != len(all.Rows) || len(paged) < 12 || !slices.IsSortedFunc(paged, func(a, b int64) int { return int(b - a) }) {
		t.Errorf("got %v of %d", paged, len(all.Rows))
	}
	found, err := Call(ctx, c, SearchLog, LogQuery{Outcome: "exit", Session: strings.ToLower(p.mine)})
	if err != nil || len(found.Rows) != 5 {
		t.Errorf("got %+v, %v", found, err)
	}
	story, err := Call(ctx, c, GetStory, OfRun{ID: strings.ToLower(p.run)})
	if err != nil || story.Run != p.run || story.Namespace != "team" || len(story.Rows) < 2 {
		t.Errorf("got %+v, %v", story, err)
	}
	var f *Failure
	if _, err := Call(ctx, c, GetStory, OfRun{ID: "none"}); !errors.As(err, &f) || f.Status != http.StatusNotFound {
		t.Errorf("got %v", err)
	}
	if _, err := Call(ctx, c, SearchLog, LogQuery{Since: "yesterday"}); !errors.As(err, &f) || f.Status != http.StatusBadRequest {
		t.Errorf("got %v", err)
	}
	figures, err := Call(ctx, c, GetFigures, FiguresQuery{Days: 2})
	if err != nil || len(figures.Days) == 0 || figures.Days[len(figures.Days)-1].Runs != 6 || figures.Days[len(figures.Days)-1].Failed != 5 ||
		!slices.Equal(figures.Namespaces, []string{"team"}) {
		t.Errorf("got %+v, %v", figures, err)
	}
	p.exec(p.mine, "true")
	if figures, err = Call(ctx, c, GetFigures, FiguresQuery{InNamespace: InNamespace{Namespace: "team"}, Days: 2}); err != nil ||
		figures.Days[len(figures.Days)-1].Runs != 7 {
		t.Errorf("one more: got %+v, %v", figures, err)
	}
	if _, err := Call(t.Context(), c, GetQueue, NoArguments{}); err == nil {
		t.Error("nobody is answered")
	}
}

// TestWatch: a person at the socket and one over the page follow a run of another person, and end it; the row names the
// channel.
func TestWatch(t *testing.T) {
	p := overHTTP(t)
	results := make(chan pipeline.Outcome, 1)
	go func() {
		res, _ := p.Exec(context.Background(), p.mine, Cell{Code: "echo first; while :; do sleep 0.05; done"}, unheard)
		results <- res
	}()
	var run string
	hosttest.Until(t, "it runs", func() bool {
		list, err := Call(t.Context(), p.Client, ListRunning, InNamespace{Namespace: "team"})
		must(t, err)
		for _, r := range list {
			if r.Program {
				run = r.Run
			}
		}
		return run != ""
	})
	page := p.Client.ForPage()
	code, err := Call(t.Context(), page, ShowCode, OfRun{ID: run})
	if err != nil || !strings.Contains(code.Code, "echo first") {
		t.Errorf("got %+v, %v", code, err)
	}
	text, seen := "", errors.New("seen")
	err = page.Watch(t.Context(), run, func(part Part) error {
		if text += part.Stdout; strings.Contains(text, "first\n") {
			return seen
		}
		return nil
	})
	if !errors.Is(err, seen) {
		t.Errorf("got %q, %v", text, err)
	}
	_, err = Call(t.Context(), page, InterruptRun, Interruption{OfRun{run}, true})
	must(t, err)
	if res := <-results; res.Ended != "cancelled" {
		t.Errorf("got %+v", res)
	}
	found, err := Call(t.Context(), p.Client, SearchLog, LogQuery{Kinds: []string{"execution.interrupted"}})
	if err != nil || len(found.Rows) != 1 || !strings.Contains(string(found.Rows[0].Data), `"by":"page"`) ||
		!strings.Contains(string(found.Rows[0].Data), run) {
		t.Errorf("got %+v, %v", found.Rows, err)
	}
	if err := page.Watch(t.Context(), run, func(Part) error { return nil }); err == nil {
		t.Error("it is over, and can be watched")
	}
}

// TestPageHeader: only the server's own user says that a request is the page's.
func TestPageHeader(t *testing.T) {
	p := overHTTP(t)
	status, text := p.sends(t, "all", "POST", "/v1/approvals/"+p.asks.Question.ID, `{"allow":true}`, pageHeader, "yes")
	if a, err := p.asks.Wait(t.Context()); status != 200 || err != nil || a.By.String() != "http" {
		t.Errorf("got %d %s: %+v, %v", status, text, a, err)
	}
}

// TestDoctorOnce: however many ask, the machine is looked at once at a time, and again once that is old.
func TestDoctorOnce(t *testing.T) {
	p := overHTTP(t)
	var calls, now atomic.Int32
	p.listener.api.c.Doctor = func(context.Context) ([]Finding, error) {
		defer now.Add(-1)
		if calls.Add(1); now.Add(1) > 1 {
			t.Error("two look at the same time")
		}
		return []Finding{{Kind: "state", Name: "s"}, {Kind: "layer", Name: "user"}}, nil
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if status, text := p.sends(t, "other", "GET", "/v1/doctor", ""); status != http.StatusOK || strings.Contains(text, "state") ||
				!strings.Contains(text, "user") {
				t.Errorf("got %d %s", status, text)
			}
		})
	}
	all.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("it was looked %d times", n)
	}
	if _, text := p.sends(t, "all", "GET", "/v1/doctor", ""); !strings.Contains(text, "state") {
		t.Errorf("the operator gets %s", text)
	}
	p.listener.api.looked.at = time.Now().Add(-lookedTime)
	p.sends(t, "all", "GET", "/v1/doctor", "")
	if n := calls.Load(); n != 2 {
		t.Errorf("later it was looked %d times", n)
	}
}

// filters records the searches in the log.
type filters struct {
	Records
	all *[]audit.Filter
}

func (f filters) Rows(ctx context.Context, q audit.Filter) iter.Seq2[audit.Row, error] {
	*f.all = append(*f.all, q)
	return f.Records.Rows(ctx, q)
}

// TestSearchElsewhere: a search of a person of one namespace reads no row of others, so that neither its time nor its
// end reveals anything about those rows.
func TestSearchElsewhere(t *testing.T) {
	p := overHTTP(t)
	var asked []audit.Filter
	p.listener.api.c.Records = filters{p.log, &asked}
	if status, text := p.sends(t, "other", "GET", "/v1/log?text=secret.example", ""); status != http.StatusOK ||
		strings.Contains(text, "secret.example") {
		t.Errorf("got %d %s", status, text)
	}
	if len(asked) == 0 || slices.ContainsFunc(asked, func(q audit.Filter) bool { return !slices.Equal(q.Namespaces, []string{"other"}) }) {
		t.Errorf("it looks for %+v", asked)
	}
}
