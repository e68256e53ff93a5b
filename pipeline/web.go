package pipeline

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
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Web is the policy for pages of the web. The zero value allows none.
type Web struct {
	Client  *web.Client   // nil: web tools are off
	Policy  egress.Policy // what may be reached
	Engines *web.Engines  // nil: there are none to ask
	Timeout time.Duration // of one call; a caller can ask for less
	// Reader is a program of this host that is a reader of pages when its one argument is role.PageReader. It runs in a
	// sandbox of the backend "process", as the default profile has it. "" is where there is no such backend: pages
	// are then parsed in this process, smaller ones only.
	Reader string
	// Browser is the path of a Chromium for Browse; "" looks for one.
	Browser string
	// Authorities are certificates, in DER, that the browser trusts beside its own: browsers don't look at what the rest
	// of the machine trusts. Nil is none; it is called for each page.
	Authorities func() [][]byte
}

// DefaultWebTimeout bounds a call where the operator does not.
const DefaultWebTimeout = 60 * time.Second

// Fetch reads a page. It comes to a [Fetched]. What it returns was written by strangers: web.Fence marks it.
type Fetch struct {
	Namespace string
	URL       string
	Format    string        // of package page; "" is Markdown
	Offset    int           // bytes of the text to leave out
	MaxBytes  int           // of the text to return; 0 is all
	Timeout   time.Duration // 0 is the operator's
}

// Fetched is a page that was read. The text is in the result's Stdout, as far as it was asked for.
type Fetched struct {
	URL       string // after redirects
	Host      string
	Status    int
	Type      string
	Title     string
	Canonical string
	Note      string // what could not be read
	Total     int    // of the whole text
	Next      int
}

// WebOn reports whether any page of the web may be read.
func (p *Pipeline) WebOn() bool { return p.cfg.Web.Client != nil }

func (q Fetch) subject() subject { return about("fetch_webpage", q.Namespace, "") }

func (q Fetch) plan(ctx context.Context, r *run) (action[Fetched], error) {
	check := func(context.Context) error { return r.mayRead(q.URL) }
	return planAction(ctx, r, q.URL, nil, check,
		task[Fetched]{stage: StageEgress, wall: r.p.webTime(q.Timeout), do: func(ctx context.Context) (Fetched, error) { return r.fetch(ctx, q) }})
}

func (p *Pipeline) webTime(asked time.Duration) time.Duration {
	limit := cmp.Or(max(p.cfg.Web.Timeout, 0), DefaultWebTimeout)
	if asked > 0 && asked < limit {
		return asked
	}
	return limit
}

// webOn refuses where the operator has not turned web tools on.
func (r *run) webOn() error {
	if r.p.WebOn() {
		return nil
	}
	return refuse(StageValidate, "web tools are off", "set ", remedy.Setting.With("web.enabled: true"))
}

// mayRead refuses an address that is none, or that would take a secret along.
func (r *run) mayRead(address string) error {
	if err := r.webOn(); err != nil {
		return err
	}
	if err := r.carries(address); err != nil {
		return err
	}
	if _, err := web.Parse(address); err != nil {
		return webError(err)
	}
	return nil
}

// carries refuses text that is to be sent out and has a secret of the namespace in it: nobody has lent it to this.
func (r *run) carries(text string) error {
	if r.leases.Redact(text) == text {
		return nil
	}
	return refuse(StageEgress, "what would be sent has a secret of the namespace in it", "leave it out: a program can be lent secrets with ", remedy.Run)
}

// trip is the outside of one call. Each decision is in the log before it has an effect.
func (r *run) trip() *web.Trip {
	return &web.Trip{Check: r.carries, Record: r.p.recorder(r.res.ID, r.res.Namespace, r.clean)}
}

// visited lists what was decided.
func (r *run) visited(t *web.Trip) { r.decided(t.Contacts()) }

// fetch reads a page, or goes on in one that was read a while ago.
func (r *run) fetch(ctx context.Context, q Fetch) (f Fetched, err error) {
	at, err := web.Parse(q.URL)
	if err != nil {
		return f, webError(err)
	}
	key := pageKey{r.res.Namespace, at.String(), q.Format}
	got, cached := r.p.pages.get(key)
	if !cached || q.Offset == 0 {
		if got, err = r.read(ctx, q); err != nil {
			return f, err
		}
		r.p.pages.put(key, got)
	}
	text := r.clean(got.page.Text) // before it is cut
	f = Fetched{URL: r.clean(got.url.String()), Host: r.clean(got.url.Hostname()), Status: got.status, Total: len(text),
		Type: got.page.Type, Title: r.clean(got.page.Title), Note: r.clean(got.page.Note), Canonical: r.clean(got.page.Canonical)}
	limit := cmp.Or(max(q.MaxBytes, 0), len(text))
	r.res.Stdout, f.Next = page.Cut(text, q.Offset, limit)
	r.facts["url"], r.facts["status"], r.facts["text_bytes"] = long(got.url.String()), got.status, len(r.res.Stdout)
	return f, nil
}

// fetchedPage is a page with its final address and status.
type fetchedPage struct {
	page   page.Page
	url    *url.URL
	status int
}

// read gets a page and makes text of it.
func (r *run) read(ctx context.Context, q Fetch) (k fetchedPage, err error) {
	t := r.trip()
	defer r.visited(t)
	got, err := r.p.cfg.Web.Client.Get(ctx, t, r.p.cfg.Web.Policy, q.URL)
	if err != nil {
		return k, webError(err)
	}
	body := []byte(r.leases.Redact(string(got.Body))) // what becomes of it may hide a secret from who looks for one
	a, err := r.readPage(ctx, reader.Question{URL: got.URL.String(), Type: got.Header.Get("Content-Type"), Format: q.Format, Body: body, Cut: got.Cut})
	return fetchedPage{a.Page, got.URL, got.Status}, err
}

// pageRemedy returns the remedy for a page of this host that policy forbids. Neither an address nor a name of this
// machine can be allowed.
func pageRemedy(host string) Remedy {
	if host == "" {
		return Remedy{"correct the address, or read another page"}
	}
	if _, err := egress.NewPolicy([]string{host}, nil); err == nil {
		return Remedy{remedy.OtherPage}
	}
	return Remedy{"web tools read public sites by their names: no list lets them reach addresses, this machine or private networks. " +
		"A server that a program starts is reached by that program, in the same ", remedy.Run, " or session, at 127.0.0.1; files come in with ", remedy.Input, ", and out with ", remedy.Stored}
}

// webError is a refusal of package web as one of ours.
func webError(err error) error {
	if no, is := errors.AsType[*web.Refused](err); is {
		e := refuse(StageEgress, no.Reason, no.Remedy...)
		if no.Remedy == nil {
			e.Remedy = pageRemedy(no.Host)
		}
		e.err = err
		return e
	}
	return err
}

// Search asks a search engine. It comes to [Hits]. What it returns was written by strangers: web.Fence marks it.
type Search struct {
	Namespace string
	Query     string
	Limit     int      // of results; 0 is 10
	Domains   []string // whose pages are results; none are all
	Timeout   time.Duration
}

// Hits are the answer to a Search.
type Hits struct {
	Engine  string   // that answered
	Passed  []string // why others did not, a sentence for each
	Results []engine.Result
}

func (q Search) subject() subject { return about("web_search", q.Namespace, "") }

func (q Search) plan(ctx context.Context, r *run) (action[Hits], error) {
	check := func(context.Context) error { return r.maySearch(q) }
	return planAction(ctx, r, q.Query, facts{"domains": q.Domains}, check,
		task[Hits]{stage: StageEgress, wall: r.p.webTime(q.Timeout), do: func(ctx context.Context) (Hits, error) { return r.search(ctx, q) }})
}

func (r *run) maySearch(q Search) error {
	if err := r.webOn(); err != nil {
		return err
	}
	if r.p.cfg.Web.Engines == nil {
		return refuse(StageValidate, "there is no search engine to ask", "set ", remedy.Setting.With("web.searxng or web.brave_key"))
	}
	for _, text := range append([]string{q.Query}, q.Domains...) {
		if err := r.carries(text); err != nil {
			return err
		}
	}
	for _, d := range q.Domains {
		if _, err := egress.NewPolicy([]string{d}, nil); err != nil {
			return refuse(StageValidate, fmt.Sprintf("%.300q is no domain to search in", d), "name hosts like example.com")
		}
	}
	return nil
}

// search asks the search engines, and cleans what they answer.
func (r *run) search(ctx context.Context, q Search) (Hits, error) {
	h := Hits{Results: []engine.Result{}}
	t := r.trip()
	defer r.visited(t)
	found, err := r.p.cfg.Web.Engines.Search(ctx, r.p.cfg.Web.Client, t, web.Query{Text: q.Query, Limit: cmp.Or(max(0, q.Limit), 10), Domains: q.Domains}, r.readPage)
	for _, why := range found.Passed {
		h.Passed = append(h.Passed, r.clean(why))
	}
	if err != nil {
		return h, webError(err)
	}
	h.Engine = found.Engine
	for _, one := range found.Results {
		h.Results = append(h.Results, engine.Result{Title: r.clean(one.Title), URL: r.clean(one.URL), Summary: r.clean(one.Summary)})
	}
	r.facts["engine"], r.facts["results"] = found.Engine, len(found.Results)
	r.facts.add("passed", found.Passed, len(found.Passed))
	return h, nil
}
