// Package page is a page for people: what asks, what runs, what ran. It is a client of the people's API, package
// control, and knows nothing else about the server.
//
// Pages are HTML from html/template, which one script of ours keeps current by server-sent events; everything is
// embedded, and nothing comes from elsewhere. What a program says is text: templates escape it, the script makes text
// nodes of it, and the policy in each answer lets the browser run nothing but our two files.
//
// A browser gets in by a code that is good once and for two minutes, or by a person's token. Its session is a cookie
// below a path that nobody else knows: browsers send cookies to all ports of a host, and another server of this machine
// must not be able to ask for it.
package page

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// Config holds what a page stands on.
type Config struct {
	Client   *control.Client // whose calls are made in the name of the identity that their context has
	Identify func(*http.Request) (identity.Identity, error)
	// Watch returns a context of an identity that ends when its credentials do, and whether they hold. Nil is for
	// identities that last.
	Watch   func(context.Context, identity.Identity) (context.Context, context.CancelCauseFunc, bool)
	Origins []string // that browsers know the page by, beside Host: where a proxy changes that
	Version string
	Log     *slog.Logger
}

// Page answers browsers. Its methods may be called concurrently.
type Page struct {
	c        Config
	visitors visitors
	long     map[string]*door.Slots // answers that go on for long, by their path
	cells    sync.WaitGroup
	typed    sync.Map        // *typed by the run's id
	ctx      context.Context // of cells, which outlast the request that began them
	end      context.CancelFunc
}

// New returns a page. Close it before what its client talks to.
func New(c Config) *Page {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	follow, read := door.NewSlots("follow", 4*maxStreams, maxStreams, 0), door.NewSlots("export", 4, 2, 0) // which reads up to all of the log
	p := &Page{c: c, long: map[string]*door.Slots{"live": follow, "output": follow, "export": read}}
	p.visitors.now = time.Now
	p.ctx, p.end = context.WithCancel(context.Background())
	return p
}

// Close ends all sessions of browsers, and what they follow.
func (p *Page) Close() {
	p.end()
	p.visitors.close()
	p.cells.Wait()
}

// Invite returns a code that lets a browser in as an identity, once, within two minutes. The error, a *control.Failure,
// is that too many codes wait, of this identity or of all.
func (p *Page) Invite(i identity.Identity) (code string, err error) { return p.visitors.invite(i) }

//go:embed assets
var assets embed.FS

// asset returns one of our files, and its type.
func asset(name string) (body []byte, kind string) {
	kind = map[string]string{"page.css": "text/css", "page.js": "text/javascript", "verify.js": "text/javascript", "icon.svg": "image/svg+xml"}[name]
	if kind == "" {
		return nil, ""
	}
	body, _ = assets.ReadFile("assets/" + name)
	return body, kind + "; charset=utf-8"
}

// edition changes with our files, so that browsers can keep those of one edition.
var edition = sync.OnceValue(func() string {
	sum := sha256.New()
	for _, name := range []string{"page.css", "page.js", "verify.js", "icon.svg"} {
		body, _ := asset(name)
		sum.Write(body)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
})

// IsPagePath reports whether a path is the page's.
func IsPagePath(path string) bool {
	body, _ := asset(strings.TrimPrefix(path, "/"))
	return path == "/" || body != nil || strings.HasPrefix(path, "/~")
}

// IsLinkPath reports whether any page may lead a browser to a path: there is nothing but where to get in.
func IsLinkPath(path string) bool { return path == "/" }

// ServeHTTP answers a browser.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	path := strings.TrimPrefix(r.URL.Path, "/")
	room := ""
	if rest, ok := strings.CutPrefix(path, "~"); ok {
		room, path, ok = strings.Cut(rest, "/")
		if !ok || !isRoom(room) {
			p.fail(w, r, http.StatusNotFound, wordFor("nothing_here"))
			return
		}
	}
	head := r.Method == http.MethodHead
	if head { // is as GET, but that net/http sends no body
		r = r.WithContext(r.Context())
		r.Method = http.MethodGet
	}
	if body, kind := asset(path); body != nil && r.Method == http.MethodGet {
		w.Header().Set("Content-Type", kind)
		if r.URL.Query().Get("v") == edition() {
			w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
		}
		_, _ = w.Write(body) // a client that has gone needs none
		return
	}
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, HEAD, POST")
		p.fail(w, r, http.StatusMethodNotAllowed, wordFor("nothing_here"))
	case r.Method == http.MethodPost && !p.isSameOrigin(r):
		p.fail(w, r, http.StatusForbidden, wordFor("other_site"))
	case room == "" && path == "" && r.Method == http.MethodGet:
		p.signIn(w, r, http.StatusOK, "")
	case room == "":
		p.fail(w, r, http.StatusNotFound, wordFor("nothing_here"))
	case path == "enter" && r.Method == http.MethodPost:
		p.signInWith(w, r, room)
	case head && p.long[path] != nil: // it would have no end
		p.fail(w, r, http.StatusMethodNotAllowed, wordFor("nothing_here"))
	default:
		p.inside(w, r, room, path)
	}
}

// inside answers who has a session.
func (p *Page) inside(w http.ResponseWriter, r *http.Request, room, path string) {
	v := p.visitors.visitorOf(r, room)
	ctx, done := r.Context(), func() {}
	if v != nil {
		ctx, done, v = p.withVisitor(ctx, v)
	}
	if v == nil {
		if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") != "cors" && r.Header.Get("Accept") != "text/event-stream" {
			w.Header().Set("Location", "../?out")
			w.WriteHeader(http.StatusSeeOther)
			return
		}
		p.fail(w, r, http.StatusUnauthorized, wordFor("signed_out"))
		return
	}
	defer done()
	if p.refuseLargeForm(w, r, door.Authenticate(ctx, v.identity.String())) {
		return
	}
	handlers := gets
	if r.Method == http.MethodPost {
		handlers = posts
		if err := readForm(r, maxForm); p.refuseLargeForm(w, r, err) {
			return
		} else if err != nil || !v.rightToken(r) {
			p.fail(w, r, http.StatusForbidden, wordFor("old_page"))
			return
		}
	}
	h := handlers()[path]
	if h == nil {
		p.fail(w, r, http.StatusNotFound, wordFor("nothing_here"))
		return
	}
	if slots := p.long[path]; slots != nil {
		_, leave, err := slots.Acquire(ctx, v.identity.String())
		if err != nil {
			why := wordFor("too_many_windows")
			if path == "export" {
				why = wordFor("export_busy")
			}
			p.fail(w, r, http.StatusTooManyRequests, why)
			return
		}
		defer leave()
	}
	if err := h(p, w, r.WithContext(ctx), v); err != nil {
		p.failed(w, r, err)
	}
}

// readForm reads the form of a request, of so many bytes at most.
func readForm(r *http.Request, most int64) error {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
		r.PostForm = url.Values{}
		return nil
	}
	body, err := door.ReadBody(r, most)
	if err != nil {
		return err
	}
	return door.Decode(r.Context(), len(body), 0, func() error {
		r.PostForm, err = url.ParseQuery(string(body))
		return err
	})
}

// refuseLargeForm answers, and reports that, where there is no memory for a request at the moment.
func (p *Page) refuseLargeForm(w http.ResponseWriter, r *http.Request, err error) bool {
	full, ok := errors.AsType[*door.Refused](err)
	if ok {
		full.RetryAfter(w.Header())
		p.fail(w, r, full.Status, full.Text)
	}
	return ok
}

// withVisitor returns a context for what a visitor asks for, which ends when the session does, or nobody if it has.
func (p *Page) withVisitor(ctx context.Context, v *visitor) (context.Context, func(), *visitor) {
	ctx, cancel := context.WithCancel(identity.With(ctx, v.identity))
	stop := context.AfterFunc(v.ctx, cancel)
	done := func() { stop(); cancel() }
	if p.c.Watch == nil || v.identity.Source != identity.FromToken {
		return ctx, done, v
	}
	watched, end, holds := p.c.Watch(ctx, v.identity)
	if !holds {
		end(nil)
		done()
		p.visitors.drop(v)
		return nil, nil, nil
	}
	return watched, func() { end(nil); done() }, v
}

const maxForm = 4 << 20 // bytes: code that is typed or pasted

// handler answers, or returns why it does not.
type handler func(*Page, http.ResponseWriter, *http.Request, *visitor) error

// gets are the pages and their parts.
func gets() map[string]handler {
	return map[string]handler{
		"": (*Page).now, "live": (*Page).sendUpdates, "output": (*Page).output, "code": (*Page).code, "session": (*Page).session,
		"ran": (*Page).ran, "run": (*Page).run, "evidence": (*Page).evidence, "file": (*Page).file, "export": (*Page).export,
		"policy": (*Page).policy, "doctor": (*Page).doctor, "charts": (*Page).charts, "changes": (*Page).changes,
	}
}

// posts are what changes something.
func posts() map[string]handler {
	return map[string]handler{
		"answer": (*Page).answer, "interrupt": (*Page).interrupt, "end": (*Page).endSession, "cell": (*Page).cell, "leave": (*Page).leave, "decide": (*Page).decideChanges,
	}
}
