package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/web/engine"
	"github.com/sandboxmcp/sandboxmcp/egress/web/reader"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Engines are the search engines, in order of use: the operator's SearXNG, and Brave's API.
// It is safe for concurrent use.
type Engines struct{ all []searchEngine }

// searchEngine is an engine, and the policy for its requests.
type searchEngine struct {
	name   string
	at     string // its address without the query
	policy egress.Policy
	key    func() ([]byte, error) // nil if it needs none
}

// EngineConfig configures the engines.
type EngineConfig struct {
	SearXNG  string                 // address of the operator's own, allowed for searches unless Deny has it; "" is none
	BraveKey func() ([]byte, error) // the key of Brave's API; nil disables Brave
	Policy   egress.Policy          // for Brave
	Deny     []string
}

// NewEngines returns the engines that are configured.
func NewEngines(c EngineConfig) (*Engines, error) {
	s := &Engines{}
	if c.SearXNG != "" {
		own, err := c.searXNG()
		if err != nil {
			return nil, err
		}
		s.all = append(s.all, own)
	}
	if c.BraveKey != nil {
		s.all = append(s.all, searchEngine{engine.Brave, "https://api.search.brave.com/res/v1/web/search?count=20&q=", c.Policy, c.BraveKey})
	}
	return s, nil
}

// searXNG returns the operator's engine.
func (c EngineConfig) searXNG() (own searchEngine, err error) {
	at, err := Parse(c.SearXNG)
	if err != nil {
		return own, fmt.Errorf("the address of SearXNG: %w", err)
	}
	n, err := Port(at)
	if err != nil {
		return own, err
	}
	if own.policy, err = egress.NewPolicy([]string{fmt.Sprintf("%s:%d", at.Hostname(), n)}, c.Deny); err != nil {
		return own, fmt.Errorf("SearXNG can't be reached as %s: give it a name of its own, such as one of this machine's hosts file, "+
			"and name its network in egress.networks if that is a private one or this machine (%w)", at.Host, err)
	}
	at.RawQuery = ""
	own.name = engine.SearXNG
	own.at = strings.TrimSuffix(strings.TrimRight(at.String(), "/"), "/search") + "/search?categories=general&format=json&q="
	return own, nil
}

// Query is a search.
type Query struct {
	Text    string
	Limit   int      // of results
	Domains []string // restrict results to these; none is all
}

// Found is the result of a search.
type Found struct {
	Engine  string // the engine that answered
	Results []engine.Result
	Passed  []string // the reasons of the failed engines before it
}

// Search queries the engines in order until one answers. read parses the engine's page.
func (s *Engines) Search(ctx context.Context, c *Client, t *Trip, q Query, read func(context.Context, reader.Question) (reader.Answer,
	error)) (Found, error) {
	var f Found
	for _, e := range s.all {
		results, why, err := e.runQuery(ctx, c, t, q, read)
		switch {
		case ctx.Err() != nil:
			return f, context.Cause(ctx)
		case err != nil:
			return f, err
		case why == "":
			f.Engine, f.Results = e.name, q.filterDomains(results)
			return f, nil
		}
		f.Passed = append(f.Passed, e.name+": "+why)
	}
	if len(s.all) == 0 {
		return f, remedy.For(errors.New("no search engine is configured"), "set ", remedy.Setting.With("web.searxng or web.brave_key"))
	}
	return f, fmt.Errorf("no search engine answered: %s", strings.Join(f.Passed, "; "))
}

// runQuery runs a query. It returns the results, or the reason why the engine did not answer; an error is one of read.
func (e searchEngine) runQuery(ctx context.Context, c *Client, t *Trip, q Query, read func(context.Context, reader.Question) (reader.Answer,
	error)) ([]engine.Result, string, error) {
	var header http.Header
	if e.key != nil {
		key, err := e.key()
		if err != nil {
			return nil, "", err
		}
		header = engine.Key(string(key))
	}
	r, err := c.getWithHeader(ctx, t, e.policy, e.at+url.QueryEscape(q.words()), header)
	if errors.As(err, new(*Unrecorded)) {
		return nil, "", err
	}
	if err != nil {
		return nil, err.Error(), nil
	}
	if why := engine.RefusalOf(r.Status); why != "" {
		return nil, why, nil
	}
	a, err := read(ctx, reader.Question{Engine: e.name, URL: r.URL.String(), Type: r.Header.Get("Content-Type"), Body: r.Body, Cut: r.Cut})
	if err != nil {
		return nil, "", err
	}
	return a.Results, a.Error, nil
}

// words returns the text of the query for an engine.
func (q Query) words() string {
	switch len(q.Domains) {
	case 0:
		return q.Text
	case 1:
		return q.Text + " site:" + q.Domains[0]
	}
	return q.Text + " (site:" + strings.Join(q.Domains, " OR site:") + ")"
}

// filterDomains keeps the results within the query's domains, since not every engine supports site:.
func (q Query) filterDomains(all []engine.Result) (some []engine.Result) {
	for _, r := range all {
		u, err := url.Parse(r.URL)
		if err != nil || len(q.Domains) > 0 && !slices.ContainsFunc(q.Domains, func(d string) bool { return isWithin(u.Hostname(), d) }) {
			continue
		}
		if some = append(some, r); len(some) == q.Limit {
			break
		}
	}
	return some
}

// isWithin reports whether a host is a domain or below it.
func isWithin(host, domain string) bool {
	host, domain = strings.ToLower(host), strings.ToLower(strings.Trim(strings.TrimPrefix(domain, "*."), "."))
	return host == domain || strings.HasSuffix(host, "."+domain)
}
