package control

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// TestSeveralNamespaces: a person of some namespaces has exactly theirs searched, counted and summed up.
func TestSeveralNamespaces(t *testing.T) {
	p := overHTTP(t)
	c := LocalClient(p.listener.api)
	as := func(namespaces ...string) context.Context {
		return identity.With(t.Context(), identity.Identity{Name: "of " + strings.Join(namespaces, "-"), Source: identity.FromToken,
			Kind: identity.Person, Namespaces: identity.ParseNamespaces(namespaces)})
	}
	runs := func(namespace, code string) {
		_, _, _ = pipeline.Do(t.Context(), p.listener.api.c.Pipeline, run.Request{
			Namespace: namespace, Language: "shell", Code: []byte(code),
		})
	}
	runs("second", "true")
	runs("covert", "exit 3")
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		_, _, _ = pipeline.Do(ctx, p.listener.api.c.Pipeline, run.Request{
			Namespace: "covert", Language: "shell", Code: []byte("while :; do sleep 0.1; done"),
		})
	}()
	defer func() { cancel(); <-ended }()
	hosttest.Until(t, "it runs", func() bool { l := p.listener.api.c.Pipeline.Load(); return l.Running > 0 })
	both, covert := as("team", "second"), as("covert")
	found, err := Call(both, c, SearchLog, LogQuery{Limit: 1000})
	must(t, err)
	of := map[string]int{}
	for _, r := range found.Rows {
		of[r.Namespace]++
	}
	if len(of) != 2 || of["team"] == 0 || of["second"] == 0 {
		t.Errorf("rows: got %v", of)
	}
	for name, want := range map[string]struct {
		ctx     context.Context
		running int
		runs    int64
	}{"both": {both, 0, 2}, "covert": {covert, 1, 1}, "all": {as("*"), 1, 3}} {
		q, err := Call(want.ctx, c, GetQueue, NoArguments{})
		must(t, err)
		s, err := Call(want.ctx, c, GetStats, NoArguments{})
		must(t, err)
		n := int64(0)
		for _, one := range s.Runs {
			n += one
		}
		if q.Running != want.running || q.Slots == 0 || s.Running != want.running || n != want.runs || s.P50 == 0 {
			t.Errorf("%s: got %+v, %+v", name, q, s)
		}
	}
	f, err := Call(both, c, GetFigures, FiguresQuery{Days: 2})
	if err != nil || !slices.Equal(f.Namespaces, []string{"second", "team"}) || f.Days[len(f.Days)-1].Runs != 2 ||
		f.Days[len(f.Days)-1].Failed != 0 {
		t.Errorf("figures: got %+v, %v", f, err)
	}
}

// slowly is a log that is read row by row, when told to.
type slowly struct {
	Records
	next chan struct{}
}

func (s slowly) Rows(ctx context.Context, q audit.Filter) iter.Seq2[audit.Row, error] {
	return func(yield func(audit.Row, error) bool) {
		for r, err := range s.Records.Rows(ctx, q) {
			select {
			case <-s.next:
			case <-ctx.Done():
				yield(audit.Row{}, context.Cause(ctx))
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// TestFiguresPartly: however long the log is, the answer has the figures summed up so far. The sum goes on without the
// asker, is completed, and ends with the server.
func TestFiguresPartly(t *testing.T) {
	p := overHTTP(t)
	log := slowly{p.log, make(chan struct{})}
	p.listener.api.c.Records = log
	c := LocalClient(p.listener.api)
	boss := identity.With(t.Context(), identity.Identity{Name: "boss", Source: identity.FromToken, Kind: identity.Person,
		Namespaces: identity.All()})
	if f, err := Call(boss, c, GetFigures, FiguresQuery{Days: 2}); err != nil || !f.Partly || len(f.Days) != 0 {
		t.Errorf("got %+v, %v", f, err)
	}
	close(log.next)
	hosttest.Until(t, "all of it is summed up", func() bool {
		f, err := Call(boss, c, GetFigures, FiguresQuery{Days: 2})
		must(t, err)
		return !f.Partly && f.Days[len(f.Days)-1].Runs == 1
	})
	p.listener.api.c.Records = slowly{p.log, nil}
	p.exec(p.mine, "true")
	if f, err := Call(boss, c, GetFigures, FiguresQuery{Days: 2}); err != nil || !f.Partly || f.Days[len(f.Days)-1].Runs != 1 {
		t.Errorf("one more: got %+v, %v", f, err)
	}
	p.listener.api.Close()
	if _, err := Call(boss, c, GetFigures, FiguresQuery{Days: 2}); err == nil {
		t.Error("the server has ended, and reads on")
	}
}

// TestPercentiles: values that are counted by three digits have the same percentiles as the exact values.
func TestPercentiles(t *testing.T) {
	for ms, want := range map[float64]float64{0: 0, 0.001234: 0.001234, 0.12345: 0.123, 9.996: 10, 123.4: 123, 1234: 1230, 98765: 98800, -1: 0,
		1e300: 1e12} {
		if got := threeDigits(ms); got < want-want/1e9 || got > want+want/1e9 {
			t.Errorf("%v: got %v, want %v", ms, got, want)
		}
	}
	counted := map[float64]int{}
	for i := range 1000 {
		counted[threeDigits(float64(i))]++
	}
	if a, b, none := percentile(counted, 500), percentile(counted, 950), percentile(nil, 0); a != 500 || b != 950 || none != 0 {
		t.Errorf("got %v, %v, %v", a, b, none)
	}
}

// TestReadsAtOnce: one person reads the log twice at once, which leaves others room; a waiting request is served when a
// read has ended.
func TestReadsAtOnce(t *testing.T) {
	p := overHTTP(t)
	log := slowly{p.log, make(chan struct{})}
	p.listener.api.c.Records = log
	var all sync.WaitGroup
	answered := make(chan string, 10)
	read := func(as string) {
		all.Go(func() {
			if status, text := p.sends(t, as, "GET", "/v1/log?limit=1", ""); status != http.StatusOK {
				t.Errorf("%s: got %d %s", as, status, text)
			}
			answered <- as
		})
	}
	reads := p.listener.api.reads
	for range 4 {
		read("all")
	}
	hosttest.Until(t, "two are read", func() bool { return reads.Taken() == maxOwnReads })
	read("other") // finds nothing, so that nothing holds it up
	if got := <-answered; got != "other" {
		t.Errorf("%s is answered first", got)
	}
	if n := reads.Taken(); n > maxOwnReads {
		t.Errorf("%d are read", n)
	}
	close(log.next)
	all.Wait()
	if n := reads.Taken(); n != 0 {
		t.Errorf("%d are read at the end", n)
	}
}
