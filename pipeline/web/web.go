// Package web has the effects that read the web: Fetch and Search (web), whose pages are parsed in a sandbox
// (reader), and Browse, which renders a page with a browser in a sandbox (browse decides, browse_run runs it).
// Package egress/web fetches and parses pages.
package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/web"
	"github.com/sandboxmcp/sandboxmcp/egress/web/engine"
	"github.com/sandboxmcp/sandboxmcp/egress/web/page"
	"github.com/sandboxmcp/sandboxmcp/egress/web/reader"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Config is the policy for web pages. The zero value allows none.
type Config struct {
	Client  *web.Client   // nil: web tools are off
	Policy  egress.Policy // allowed hosts
	Engines *web.Engines  // search engines; nil: none
	Timeout time.Duration // of one call; a caller can choose less
	// Reader is a program of this host that parses pages when called with the single argument role.PageReader. It
	// runs in a sandbox of the backend "process" with the default profile. "" means that this backend is missing:
	// this process parses pages then, only smaller ones.
	Reader string
	// Browser is the path of a Chromium for Browse; "" looks for one.
	Browser string
	// Authorities returns DER certificates that the browser trusts in addition to its own: browsers ignore those that
	// the machine trusts. It is called for each page. May be nil.
	Authorities func() [][]byte
}

// DefaultWebTimeout bounds a call if the operator does not.
const DefaultWebTimeout = 60 * time.Second

// Fetch reads a page. Its answer is a [Fetched], whose text was written by strangers: web.Fence marks it.
type Fetch struct {
	Namespace string
	URL       string
	Format    string        // of package page; "" is Markdown
	Offset    int           // bytes of the text to skip
	MaxBytes  int           // of the text to return; 0 is all
	Timeout   time.Duration // 0 is the operator's
}

// Fetched is a page that was read. The requested part of the text is the result's Stdout.
type Fetched struct {
	URL       string // after redirects
	Host      string
	Status    int
	Type      string
	Title     string
	Canonical string
	Note      string // note about unreadable parts
	Total     int    // bytes of the whole text
	Next      int
}

// IsEnabled reports whether web tools are on.
func IsEnabled(p *pipeline.Pipeline) bool { return pipeline.PackageSettings[Config](p).Client != nil }

func (q Fetch) Subject() pipeline.Subject { return pipeline.About("fetch_webpage", q.Namespace, "") }

func (q Fetch) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[Fetched], error) {
	check := func(context.Context) error { return mayRead(r, q.URL) }
	return pipeline.PlanAction(ctx, r, q.URL, nil, check,
		pipeline.Task[Fetched]{Stage: pipeline.StageEgress, Wall: webTime(r.Pipeline, q.Timeout), Do: func(ctx context.Context) (Fetched, error) {
			return fetch(ctx, r, q)
		}})
}

func webTime(p *pipeline.Pipeline, asked time.Duration) time.Duration {
	limit := cmp.Or(max(pipeline.PackageSettings[Config](p).Timeout, 0), DefaultWebTimeout)
	if asked > 0 && asked < limit {
		return asked
	}
	return limit
}

// checkEnabled refuses a call if web tools are off.
func checkEnabled(r *pipeline.Run) error {
	if IsEnabled(r.Pipeline) {
		return nil
	}
	return pipeline.Refuse(pipeline.StageValidate, "web tools are off", "set ", remedy.Setting.With("web.enabled: true"))
}

// mayRead refuses an invalid address, or one that contains a secret.
func mayRead(r *pipeline.Run, address string) error {
	if err := checkEnabled(r); err != nil {
		return err
	}
	if err := checkSecrets(r, address); err != nil {
		return err
	}
	if _, err := web.Parse(address); err != nil {
		return webError(err)
	}
	return nil
}

// checkSecrets refuses to send text with a secret of the namespace, which was not leased for this.
func checkSecrets(r *pipeline.Run, text string) error {
	if r.Leases.Redact(text) == text {
		return nil
	}
	return pipeline.Refuse(pipeline.StageEgress, "the request contains a secret of the namespace", "leave it out: programs get secrets with ",
		remedy.Run)
}

// trip returns the egress of one call. The log has each decision before it takes effect.
func trip(r *pipeline.Run) *web.Trip {
	return &web.Trip{Check: func(text string) error { return checkSecrets(r, text) }, Record: containment.DecisionRecorder(r.Pipeline,
		r.Outcome.ID, r.Outcome.Namespace, r.Clean)}
}

// addContacts adds the decisions to the result.
func addContacts(r *pipeline.Run, t *web.Trip) { containment.AddDecisions(r, t.Contacts()) }

// fetch reads a page, or continues one in the cache.
func fetch(ctx context.Context, r *pipeline.Run, q Fetch) (f Fetched, err error) {
	at, err := web.Parse(q.URL)
	if err != nil {
		return f, webError(err)
	}
	key := pageKey{r.Outcome.Namespace, at.String(), q.Format}
	got, cached := pipeline.PackageState(r.Pipeline, openPages).cachedPage(key)
	if !cached || q.Offset == 0 {
		if got, err = read(ctx, r, q); err != nil {
			return f, err
		}
		pipeline.PackageState(r.Pipeline, openPages).addPage(key, got)
	}
	text := r.Clean(got.page.Text) // before it is cut
	f = Fetched{URL: r.Clean(got.url.String()), Host: r.Clean(got.url.Hostname()), Status: got.status, Total: len(text),
		Type: got.page.Type, Title: r.Clean(got.page.Title), Note: r.Clean(got.page.Note), Canonical: r.Clean(got.page.Canonical)}
	limit := cmp.Or(max(q.MaxBytes, 0), len(text))
	r.Outcome.Stdout, f.Next = page.Cut(text, q.Offset, limit)
	r.Facts["url"], r.Facts["status"], r.Facts["text_bytes"] = pipeline.LongText(got.url.String()), got.status, len(r.Outcome.Stdout)
	return f, nil
}

// fetchedPage is a page with its final address and status.
type fetchedPage struct {
	page   page.Page
	url    *url.URL
	status int
}

// read fetches a page and converts it to text.
func read(ctx context.Context, r *pipeline.Run, q Fetch) (k fetchedPage, err error) {
	t := trip(r)
	defer addContacts(r, t)
	got, err := pipeline.PackageSettings[Config](r.Pipeline).Client.Get(ctx, t, pipeline.PackageSettings[Config](r.Pipeline).Policy, q.URL)
	if err != nil {
		return k, webError(err)
	}
	body := []byte(r.Leases.Redact(string(got.Body))) // the conversion could hide a secret from redaction
	a, err := readPage(ctx, r, reader.Question{URL: got.URL.String(), Type: got.Header.Get("Content-Type"), Format: q.Format, Body: body,
		Cut: got.Cut})
	return fetchedPage{a.Page, got.URL, got.Status}, err
}

// pageRemedy returns the remedy for a page of a host that policy forbids. Addresses and names of this machine can't
// be allowed.
func pageRemedy(host string) pipeline.Remedy {
	if host == "" {
		return pipeline.Remedy{"correct the address, or read another page"}
	}
	if _, err := egress.NewPolicy([]string{host}, nil); err == nil {
		return pipeline.Remedy{remedy.OtherPage}
	}
	return pipeline.Remedy{"web tools read public sites by their names: no list lets them reach addresses, this machine or " +
		"private networks. " +
		"A server that a program starts is reached by that program, in the same ", remedy.Run, " or session, at 127.0.0.1; files come in with ",
		remedy.Input, ", and out with ", remedy.Stored}
}

// webError converts a refusal of package egress/web.
func webError(err error) error {
	if no, is := errors.AsType[*web.Refused](err); is {
		e := pipeline.Refuse(pipeline.StageEgress, no.Reason, no.Remedy...)
		if no.Remedy == nil {
			e.Remedy = pageRemedy(no.Host)
		}
		e.WithCause(err)
		return e
	}
	return err
}

// Search queries a search engine. Its answer is [Hits], whose text was written by strangers: web.Fence marks it.
type Search struct {
	Namespace string
	Query     string
	Limit     int      // maximum number of results; 0 is 10
	Domains   []string // restrict results to these domains; none is all
	Timeout   time.Duration
}

// Hits is the answer to a Search.
type Hits struct {
	Engine  string   // engine that answered
	Passed  []string // reasons why others did not, one sentence each
	Results []engine.Result
}

func (q Search) Subject() pipeline.Subject { return pipeline.About("web_search", q.Namespace, "") }

func (q Search) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[Hits], error) {
	check := func(context.Context) error { return maySearch(r, q) }
	return pipeline.PlanAction(ctx, r, q.Query, pipeline.Facts{"domains": q.Domains}, check,
		pipeline.Task[Hits]{Stage: pipeline.StageEgress, Wall: webTime(r.Pipeline, q.Timeout), Do: func(ctx context.Context) (Hits, error) {
			return search(ctx, r, q)
		}})
}

func maySearch(r *pipeline.Run, q Search) error {
	if err := checkEnabled(r); err != nil {
		return err
	}
	if pipeline.PackageSettings[Config](r.Pipeline).Engines == nil {
		return pipeline.Refuse(pipeline.StageValidate, "no search engine is configured", "set ",
			remedy.Setting.With("web.searxng or web.brave_key"))
	}
	for _, text := range append([]string{q.Query}, q.Domains...) {
		if err := checkSecrets(r, text); err != nil {
			return err
		}
	}
	for _, d := range q.Domains {
		if _, err := egress.NewPolicy([]string{d}, nil); err != nil {
			return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("%.300q is not a domain to search in", d), "name hosts like example.com")
		}
	}
	return nil
}

// search queries the search engines, and redacts their answers.
func search(ctx context.Context, r *pipeline.Run, q Search) (Hits, error) {
	h := Hits{Results: []engine.Result{}}
	t := trip(r)
	defer addContacts(r, t)
	found, err := pipeline.PackageSettings[Config](r.Pipeline).Engines.Search(ctx, pipeline.PackageSettings[Config](r.Pipeline).Client, t,
		web.Query{Text: q.Query, Limit: cmp.Or(max(0, q.Limit), 10), Domains: q.Domains},
		func(ctx context.Context, q reader.Question) (reader.Answer, error) { return readPage(ctx, r, q) })
	for _, why := range found.Passed {
		h.Passed = append(h.Passed, r.Clean(why))
	}
	if err != nil {
		return h, webError(err)
	}
	h.Engine = found.Engine
	for _, one := range found.Results {
		h.Results = append(h.Results, engine.Result{Title: r.Clean(one.Title), URL: r.Clean(one.URL), Summary: r.Clean(one.Summary)})
	}
	r.Facts["engine"], r.Facts["results"] = found.Engine, len(found.Results)
	r.Facts.AddIf("passed", found.Passed, len(found.Passed))
	return h, nil
}
