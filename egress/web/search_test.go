package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/web/engine"
	"github.com/sandboxmcp/sandboxmcp/egress/web/reader"
)

// street has search engines that answer as the test says, by their names.
type street struct {
	*Engines
	t      *testing.T
	town   *town
	answer map[string]http.HandlerFunc
	asked  []string
	clock  time.Time
}

func newStreet(t *testing.T, names ...string) *street {
	t.Helper()
	s := &street{t: t, town: newTown(t), answer: map[string]http.HandlerFunc{}, clock: time.Unix(1e9, 0)}
	s.Engines = &Engines{backoffs: map[string]*backoff{}, now: func() time.Time { return s.clock }}
	for _, name := range names {
		base := s.town.http(name+".example", func(w http.ResponseWriter, r *http.Request) {
			s.asked = append(s.asked, name)
			s.answer[name](w, r)
		})
		e, err := engine.Find(name, base)
		if err != nil {
			t.Fatal(err)
		}
		s.all = append(s.all, asked{Engine: e, policy: s.town.policy(), own: name == engine.SearXNG})
		s.answer[name] = found
	}
	return s
}

// found is an answer that each of the engines of HTML could give.
func found(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, `<div class="result"><a class="result__a" href="https://a.example/">A</a></div>
		<ul class="results-standard"><li><h2><a href="https://a.example/">A</a></h2></li></ul>
		<div class="snippet" data-type="web"><a href="https://a.example/"><div class="title">A</div></a></div>`)
}

func (s *street) search(q Query) (Found, error) {
	s.t.Helper()
	s.asked = nil
	return s.Search(s.t.Context(), s.town.client(), &Trip{}, q, func(_ context.Context, q reader.Question) (reader.Answer, error) { return reader.Read(q), nil })
}

func TestRoundRobin(t *testing.T) {
	s := newStreet(t, "duckduckgo", "mojeek", "brave")
	for _, want := range []string{"duckduckgo", "mojeek", "brave", "duckduckgo"} {
		if f, err := s.search(Query{Text: "x", Limit: 3}); err != nil || f.Engine != want || len(f.Results) != 1 || len(f.Passed) != 0 {
			t.Errorf("%+v %v, want %s", f, err, want)
		}
	}
}

// TestBackoff leaves engines alone that do not want to answer, for longer each time.
func TestBackoff(t *testing.T) {
	s := newStreet(t, "duckduckgo", "mojeek")
	status := func(n int) http.HandlerFunc { return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(n) } }
	s.answer["duckduckgo"] = status(429)
	f, err := s.search(Query{Text: "x"})
	if err != nil || f.Engine != "mojeek" || len(f.Passed) != 1 || !strings.Contains(f.Passed[0], "duckduckgo: it refuses to answer (HTTP 429) (left alone for 1m0s)") {
		t.Errorf("%+v %v", f, err)
	}
	for _, wait := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		s.clock = s.clock.Add(wait - time.Second)
		s.next = 0
		if f, err := s.search(Query{Text: "x"}); err != nil || slices.Contains(s.asked, "duckduckgo") || !strings.Contains(f.Passed[0], "left alone for another 1s, since it refuses") {
			t.Errorf("before %s: %+v %v, asked %v", wait, f, err, s.asked)
		}
		s.clock = s.clock.Add(time.Second)
		s.next = 0
		if _, err := s.search(Query{Text: "x"}); err != nil || !slices.Equal(s.asked, []string{"duckduckgo", "mojeek"}) {
			t.Errorf("after %s: %v, asked %v", wait, err, s.asked)
		}
	}
	s.answer["duckduckgo"] = found
	s.clock = s.clock.Add(maxBackoff)
	s.next = 0
	if f, err := s.search(Query{Text: "x"}); err != nil || f.Engine != "duckduckgo" || len(s.backoffs) != 0 {
		t.Errorf("%+v %v", f, err)
	}
	for i := range 80 { // it does not overflow
		s.backOff("mojeek", "x")
		if r := s.backoffs["mojeek"]; i > 10 && r.until.Sub(s.clock) != maxBackoff {
			t.Fatalf("after %d: %+v", i, r)
		}
	}
}

func TestNobodyAnswers(t *testing.T) {
	s := newStreet(t, "searxng", "duckduckgo", "mojeek", "brave")
	page := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); fmt.Fprint(w, text) }
	}
	s.answer["searxng"] = page(403, "")
	s.answer["duckduckgo"] = page(202, "")
	s.answer["mojeek"] = page(200, "<p>a new design</p>")
	s.answer["brave"] = page(200, `<div id="pow-captcha"></div>`)
	f, err := s.search(Query{Text: "x"})
	if err == nil || f.Engine != "" {
		t.Fatalf("%+v %v", f, err)
	}
	for _, want := range []string{"searxng: it refuses to answer (HTTP 403);", "duckduckgo: it wants proof", "mojeek: no results were recognized", "brave: it wants proof"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	s.answer["searxng"] = page(200, `{"results": [{"url": "https://a.example", "title": "A"}]}`)
	if f, err := s.search(Query{Text: "x"}); err != nil || f.Engine != "searxng" { // the operator's own is always asked
		t.Errorf("%+v %v", f, err)
	}
	if _, err := (&Engines{}).Search(t.Context(), s.town.client(), &Trip{}, Query{}, nil); err == nil || !strings.Contains(err.Error(), "web.searxng") {
		t.Errorf("%v", err)
	}
}

func TestDomains(t *testing.T) {
	for _, tt := range []struct {
		host, domain string
		want         bool
	}{
		{"a.example", "a.example", true}, {"x.a.example", "a.example", true}, {"X.A.example", "*.A.example.", true},
		{"xa.example", "a.example", false}, {"a.example.evil", "a.example", false},
	} {
		if got := within(tt.host, tt.domain); got != tt.want {
			t.Errorf("%s in %s: %v", tt.host, tt.domain, got)
		}
	}
	if got := (Query{Text: "x", Domains: []string{"a.example", "b.example"}}).words(); got != "x (site:a.example OR site:b.example)" {
		t.Error(got)
	}
}

func TestNewEngines(t *testing.T) {
	w := newTown(t)
	e, err := NewEngines(nil, "http://searx.example:8080/search", w.policy(), nil)
	if err != nil || len(e.all) != 5 || !e.all[0].own || !strings.HasPrefix(e.all[0].Address("x"), "http://searx.example:8080/search?") {
		t.Errorf("%+v %v", e, err)
	}
	if !e.all[0].policy.Decide("searx.example", 8080).Allowed || e.all[1].policy.Decide("searx.example", 8080).Allowed {
		t.Error("who may be reached")
	}
	if e, err = NewEngines([]string{"mojeek", "searxng"}, "", w.policy(), nil); err != nil || len(e.all) != 1 {
		t.Errorf("%+v %v", e, err)
	}
	if e, err = NewEngines(nil, "http://searx.example", w.policy(), []string{"searx.example"}); err != nil || e.all[0].policy.Decide("searx.example", 80).Allowed {
		t.Errorf("%v: what is denied may be reached", err)
	}
	for _, bad := range []string{"http://127.0.0.1:8080", "ftp://a.example", "http://u:p@a.example"} {
		if _, err := NewEngines(nil, bad, w.policy(), nil); err == nil {
			t.Errorf("%s is fine", bad)
		}
	}
	if _, err := NewEngines([]string{"bing"}, "", w.policy(), nil); err == nil {
		t.Error("bing is fine")
	}
}

// TestSearXNGByAddress says what to do with one that runs on this machine.
func TestSearXNGByAddress(t *testing.T) {
	for _, at := range []string{"http://127.0.0.1:8080", "http://localhost:8080/", "http://[::1]:8080"} {
		if _, err := NewEngines(nil, at, egress.Policy{}, nil); err == nil || !strings.Contains(err.Error(), "hosts file") || !strings.Contains(err.Error(), "egress.networks") {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, err := NewEngines(nil, "http://searx.example:8080", egress.Policy{}, nil); err != nil {
		t.Error(err)
	}
}
