package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/egress/web/engine"
	"github.com/sandboxmcp/sandboxmcp/egress/web/reader"
)

// street has fake search engines, by their names.
type street struct {
	*Engines
	t      *testing.T
	town   *town
	answer map[string]http.HandlerFunc
}

func newStreet(t *testing.T, names ...string) *street {
	t.Helper()
	s := &street{t: t, town: newTown(t), answer: map[string]http.HandlerFunc{}}
	s.Engines = &Engines{}
	for _, name := range names {
		at := s.town.http(name+".example", func(w http.ResponseWriter, r *http.Request) { s.answer[name](w, r) })
		one := searchEngine{name: name, at: at + "/?q=", policy: s.town.policy()}
		if name == engine.Brave {
			one.key = func() ([]byte, error) { return []byte("the-key"), nil }
		}
		s.all = append(s.all, one)
	}
	return s
}

func (s *street) search(q Query) (Found, error) {
	s.t.Helper()
	return s.Search(s.t.Context(), s.town.client(), &Trip{}, q, func(_ context.Context, q reader.Question) (reader.Answer, error) {
		return reader.Read(q), nil
	})
}

// TestKey sends the key to Brave, but not to SearXNG or to the target of Brave's redirects.
func TestKey(t *testing.T) {
	s := newStreet(t, "searxng", "brave")
	keys := map[string]string{}
	answers := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			keys[name] = r.Header.Get("X-Subscription-Token")
			fmt.Fprint(w, `{"type": "search", "web": {"results": [{"url": "https://a.example", "title": "A &amp; <strong>B</strong>"}]}}`)
		}
	}
	s.answer["searxng"] = func(w http.ResponseWriter, r *http.Request) {
		keys["searxng"] = r.Header.Get("X-Subscription-Token")
		w.WriteHeader(http.StatusForbidden)
	}
	s.answer["brave"] = answers("brave")
	f, err := s.search(Query{Text: "x"})
	if err != nil || f.Engine != "brave" || len(f.Results) != 1 || f.Results[0].Title != "A & B" || len(f.Passed) != 1 {
		t.Errorf("%+v %v", f, err)
	}
	if keys["brave"] != "the-key" || keys["searxng"] != "" {
		t.Errorf("keys %q", keys)
	}
	other := s.town.http("other.example", answers("other"))
	s.all[1].policy = s.town.policy()
	s.answer["brave"] = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) }
	if f, err = s.search(Query{Text: "x"}); err != nil || f.Engine != "brave" {
		t.Errorf("%+v %v", f, err)
	}
	if key, reached := keys["other"]; key != "" || !reached {
		t.Errorf("the key went to another host: %q", keys)
	}
	s.all[1].key = func() ([]byte, error) { return nil, errors.New("the vault is closed") }
	if _, err = s.search(Query{Text: "x"}); err == nil || !strings.Contains(err.Error(), "the vault is closed") {
		t.Errorf("without a key: %v", err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	s := newStreet(t, "searxng", "brave")
	page := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); fmt.Fprint(w, text) }
	}
	s.answer["searxng"] = page(403, "")
	s.answer["brave"] = page(200, "<p>a new design</p>")
	f, err := s.search(Query{Text: "x"})
	if err == nil || f.Engine != "" {
		t.Fatalf("%+v %v", f, err)
	}
	for _, want := range []string{"searxng: it refuses to answer (HTTP 403);", "brave: no results were recognized"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	s.answer["searxng"] = page(200, `{"results": [{"url": "https://a.example", "title": "A"}]}`)
	if f, err := s.search(Query{Text: "x"}); err != nil || f.Engine != "searxng" {
		t.Errorf("%+v %v", f, err)
	}
	if _, err := (&Engines{}).Search(t.Context(), s.town.client(), &Trip{}, Query{}, nil); err == nil ||
		!strings.Contains(err.Error(), "web.searxng") {
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
		if got := isWithin(tt.host, tt.domain); got != tt.want {
			t.Errorf("%s in %s: %v", tt.host, tt.domain, got)
		}
	}
	if got := (Query{Text: "x", Domains: []string{"a.example", "b.example"}}).words(); got != "x (site:a.example OR site:b.example)" {
		t.Error(got)
	}
}

func TestNewEngines(t *testing.T) {
	w := newTown(t)
	key := func() ([]byte, error) { return nil, nil }
	c := EngineConfig{SearXNG: "http://searx.example:8080/search/", BraveKey: key, Policy: w.policy()}
	e, err := NewEngines(c)
	if err != nil || len(e.all) != 2 || e.all[0].key != nil ||
		e.all[0].at != "http://searx.example:8080/search?categories=general&format=json&q=" ||
		e.all[1].at != "https://api.search.brave.com/res/v1/web/search?count=20&q=" {
		t.Errorf("%+v %v", e, err)
	}
	if !e.all[0].policy.Decide("searx.example", 8080).Allowed || e.all[1].policy.Decide("searx.example", 8080).Allowed {
		t.Error("who may be reached")
	}
	c.Deny = []string{"searx.example"}
	if e, err = NewEngines(c); err != nil || e.all[0].policy.Decide("searx.example", 8080).Allowed {
		t.Errorf("%v: what is denied may be reached", err)
	}
	if e, err = NewEngines(EngineConfig{}); err != nil || len(e.all) != 0 {
		t.Errorf("%+v %v", e, err)
	}
	for _, bad := range []string{"http://127.0.0.1:8080", "ftp://a.example", "http://u:p@a.example"} {
		if _, err := NewEngines(EngineConfig{SearXNG: bad}); err == nil {
			t.Errorf("%s is fine", bad)
		}
	}
}

// TestSearXNGByAddress checks the remedy for a SearXNG that runs on this machine.
func TestSearXNGByAddress(t *testing.T) {
	for _, at := range []string{"http://127.0.0.1:8080", "http://localhost:8080/", "http://[::1]:8080"} {
		if _, err := NewEngines(EngineConfig{SearXNG: at}); err == nil || !strings.Contains(err.Error(), "hosts file") ||
			!strings.Contains(err.Error(), "egress.networks") {
			t.Errorf("%s: %v", at, err)
		}
	}
	if e, err := NewEngines(EngineConfig{SearXNG: "http://searx.example:8080/sub/"}); err != nil ||
		!strings.HasPrefix(e.all[0].at, "http://searx.example:8080/sub/search?") {
		t.Errorf("%+v %v", e, err)
	}
}
