package web

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/web/engine"
	"github.com/sandboxmcp/sandboxmcp/egress/web/reader"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// How long an engine is not asked again after a failure. The time doubles with each failure.
const (
	minBackoff = time.Minute
	maxBackoff = 2 * time.Hour
)

// Engines are the search engines, which are asked in order. They remember failures. It is safe for concurrent use.
type Engines struct {
	all []asked
	mu  sync.Mutex
	// next is the public engine to ask first, round robin.
	next     int
	backoffs map[string]*backoff
	now      func() time.Time
}

// asked is an engine and the policy for its requests.
type asked struct {
	engine.Engine
	policy egress.Policy
	own    bool // the operator's
}

// backoff is why an engine is not asked for a while.
type backoff struct {
	until time.Time
	times int
	why   string
}

// NewEngines returns the engines of these names, or for none all engines. searxng is the address of the operator's own
// engine, or "": it is asked first, and may be reached for searches unless policy denies it.
func NewEngines(names []string, searxng string, policy egress.Policy, deny []string) (*Engines, error) {
	s := &Engines{backoffs: map[string]*backoff{}, now: time.Now}
	if len(names) == 0 {
		names = engine.Names()
	}
	if searxng != "" && !slices.Contains(names, engine.SearXNG) {
		names = append([]string{engine.SearXNG}, names...)
	}
	for _, name := range names {
		one := asked{policy: policy, own: name == engine.SearXNG}
		base := ""
		if one.own {
			if searxng == "" {
				continue
			}
			at, err := Parse(searxng)
			if err != nil {
				return nil, fmt.Errorf("the address of SearXNG: %w", err)
			}
			n, err := Port(at)
			if err != nil {
				return nil, err
			}
			if one.policy, err = egress.NewPolicy([]string{fmt.Sprintf("%s:%d", at.Hostname(), n)}, deny); err != nil {
				return nil, fmt.Errorf("SearXNG can't be reached as %s: give it a name of its own, such as one of this machine's hosts file, "+
					"and name its network in egress.networks if that is a private one or this machine (%w)", at.Host, err)
			}
			at.RawQuery = ""
			base = strings.TrimSuffix(strings.TrimRight(at.String(), "/"), "/search")
		}
		var err error
		if one.Engine, err = engine.Find(name, base); err != nil {
			return nil, err
		}
		s.all = append(s.all, one)
	}
	return s, nil
}

// Query is a search.
type Query struct {
	Text    string
	Limit   int      // of results
	Domains []string // whose pages are results; none are all
}

// Found is the result of a search.
type Found struct {
	Engine  string // that answered
	Results []engine.Result
	Passed  []string // why those before it did not, a sentence for each
}

// Search asks the engines in turn until one answers. read parses the engine's page.
func (s *Engines) Search(ctx context.Context, c *Client, t *Trip, q Query, read func(context.Context, reader.Question) (reader.Answer, error)) (Found, error) {
	var f Found
	for _, e := range s.order() {
		if why := s.backingOff(e.Name); why != "" {
			f.Passed = append(f.Passed, e.Name+": "+why)
			continue
		}
		results, why, err := e.ask(ctx, c, t, q, read)
		switch {
		case ctx.Err() != nil:
			return f, context.Cause(ctx)
		case err != nil:
			return f, err
		case why == "":
			s.mu.Lock()
			delete(s.backoffs, e.Name)
			s.mu.Unlock()
			f.Engine, f.Results = e.Name, q.choose(results)
			return f, nil
		case !e.own: // whoever runs their own sees what it lacks, and mends it
			why += s.backOff(e.Name, why)
		}
		f.Passed = append(f.Passed, e.Name+": "+why)
	}
	if len(s.all) == 0 {
		return f, remedy.For(errors.New("there is no search engine to ask"), "set ", remedy.Setting.With("web.searxng or web.engines"))
	}
	return f, fmt.Errorf("no search engine has answered: %s", strings.Join(f.Passed, "; "))
}

// ask returns why an engine has not answered, in words; an error is of what reads pages.
func (e asked) ask(ctx context.Context, c *Client, t *Trip, q Query, read func(context.Context, reader.Question) (reader.Answer, error)) ([]engine.Result, string, error) {
	r, err := c.Get(ctx, t, e.policy, e.Address(q.words()))
	if errors.As(err, new(*Unrecorded)) {
		return nil, "", err
	}
	if err != nil {
		return nil, err.Error(), nil
	}
	if why := engine.Blocks(r.Status, r.URL, r.Header); why != "" {
		return nil, why, nil
	}
	a, err := read(ctx, reader.Question{Engine: e.Name, URL: r.URL.String(), Type: r.Header.Get("Content-Type"), Body: r.Body, Cut: r.Cut})
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

// choose keeps the results within the query's domains: not every engine heeds site:.
func (q Query) choose(all []engine.Result) (some []engine.Result) {
	for _, r := range all {
		u, err := url.Parse(r.URL)
		if err != nil || len(q.Domains) > 0 && !slices.ContainsFunc(q.Domains, func(d string) bool { return within(u.Hostname(), d) }) {
			continue
		}
		if some = append(some, r); len(some) == q.Limit {
			break
		}
	}
	return some
}

// within reports whether a host is a domain or below it.
func within(host, domain string) bool {
	host, domain = strings.ToLower(host), strings.ToLower(strings.Trim(strings.TrimPrefix(domain, "*."), "."))
	return host == domain || strings.HasSuffix(host, "."+domain)
}

// order returns the engines in the order to ask: the operator's own, then the others round robin.
func (s *Engines) order() (all []asked) {
	var others []asked
	for _, e := range s.all {
		if e.own {
			all = append(all, e)
		} else {
			others = append(others, e)
		}
	}
	if len(others) == 0 {
		return all
	}
	s.mu.Lock()
	first := s.next % len(others)
	s.next++
	s.mu.Unlock()
	return slices.Concat(all, others[first:], others[:first])
}

// backingOff returns why an engine is not asked now, or "".
func (s *Engines) backingOff(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.backoffs[name]
	if r == nil || !s.now().Before(r.until) {
		return ""
	}
	return fmt.Sprintf("left alone for another %s, since %s", r.until.Sub(s.now()).Round(time.Second), r.why)
}

// backOff excludes an engine for a while, and returns for how long, in words.
func (s *Engines) backOff(name, why string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.backoffs[name]
	if r == nil {
		r = &backoff{}
		s.backoffs[name] = r
	}
	wait := min(minBackoff<<min(r.times, 20), maxBackoff)
	r.times, r.why, r.until = r.times+1, why, s.now().Add(wait)
	return fmt.Sprintf(" (left alone for %s)", wait)
}
