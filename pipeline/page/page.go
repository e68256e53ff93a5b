// Package page is a web page for people: waiting questions, running and finished runs. It is a client of package
// control, the API for people, and knows nothing else about the server.
//
// Pages are HTML from html/template, which our only script keeps current with server-sent events; all files are
// embedded, and nothing is loaded from elsewhere. Text of programs stays text: templates escape it, the script
// creates text nodes, and the policy in each answer lets the browser run only our two files.
//
// A browser signs in with a code that is valid once and for two minutes, or with a person's token. Its session is a
// cookie below a secret path: browsers send cookies to all ports of a host, and another server of this machine must
// not be able to request it.
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

// Config holds the parts of a page.
type Config struct {
	Client   *control.Client // calls use the identity of their context
	Identify func(*http.Request) (identity.Identity, error)
	// Watch returns a context that ends with an identity's credentials, and whether they are valid now. nil means
	// that identities do not expire.
	Watch   func(context.Context, identity.Identity) (context.Context, context.CancelCauseFunc, bool)
	Origins []string // accepted origins in addition to Host, if a proxy changes it
	Version string
	Log     *slog.Logger
}

// Page serves browsers. Its methods may be called concurrently.
type Page struct {
	c        Config
	visitors visitors
	long     map[string]*door.Slots // slots of long answers, by their path
	cells    sync.WaitGroup
	typed    sync.Map        // *typed by the run's id
	ctx      context.Context // context of cells, which outlive their request
	end      context.CancelFunc
}

// New returns a page. Close it before the server of its client.
func New(c Config) *Page {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	follow, read := door.NewSlots("follow", 4*maxStreams, maxStreams, 0), door.NewSlots("export", 4, 2, 0) // an export may read all of the log
	p := &Page{c: c, long: map[string]*door.Slots{"live": follow, "output": follow, "export": read}}
	p.visitors.now = time.Now
	p.ctx, p.end = context.WithCancel(context.Background())
	return p
}

// Close ends all browser sessions and their streams.
func (p *Page) Close() {
	p.end()
	p.visitors.close()
	p.cells.Wait()
}

// Invite returns a code that signs a browser in as an identity, once, within two minutes. The error, a
// *control.Failure, means that too many codes are unused, of this identity or of all.
func (p *Page) Invite(i identity.Identity) (code string, err error) { return p.visitors.invite(i) }

//go:embed assets
var assets embed.FS

// asset returns one of our files and its type.
func asset(name string) (body []byte, kind string) {
	kind = map[string]string{"page.css": "text/css", "page.js": "text/javascript", "verify.js": "text/javascript",
		"icon.svg": "image/svg+xml"}[name]
	if kind == "" {
		return nil, ""
	}
	body, _ = assets.ReadFile("assets/" + name)
	return body, kind + "; charset=utf-8"
}

// edition is a hash of our files, so that browsers can cache those of one edition.
var edition = sync.OnceValue(func() string {
	sum := sha256.New()
	for _, name := range []string{"page.css", "page.js", "verify.js", "icon.svg"} {
		body, _ := asset(name)
		sum.Write(body)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
})

// IsPagePath reports whether a path belongs to the page.
func IsPagePath(path string) bool {
	body, _ := asset(strings.TrimPrefix(path, "/"))
	return path == "/" || body != nil || strings.HasPrefix(path, "/~")
}

// IsLinkPath reports whether foreign pages may link to a path: only to the sign-in page.
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
	if head { // treat as GET; net/http omits the body
		r = r.WithContext(r.Context())
		r.Method = http.MethodGet
	}
	if body, kind := asset(path); body != nil && r.Method == http.MethodGet {
		w.Header().Set("Content-Type", kind)
		if r.URL.Query().Get("v") == edition() {
			w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
		}
		_, _ = w.Write(body) // on error, the client has gone
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
	case head && p.long[path] != nil: // a stream would not end
		p.fail(w, r, http.StatusMethodNotAllowed, wordFor("nothing_here"))
	default:
		p.inside(w, r, room, path)
	}
}

// inside serves a signed-in browser.
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

// readForm parses the form of a request, at most most bytes.
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

// refuseLargeForm answers and returns true if there is no memory for a request now.
func (p *Page) refuseLargeForm(w http.ResponseWriter, r *http.Request, err error) bool {
	full, ok := errors.AsType[*door.Refused](err)
	if ok {
		full.RetryAfter(w.Header())
		p.fail(w, r, full.Status, full.Text)
	}
	return ok
}

// withVisitor returns a context for a visitor's request, which ends with the session; the visitor is nil if the
// session has ended.
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

const maxForm = 4 << 20 // bytes: for typed or pasted code

// handler answers a request, or returns an error.
type handler func(*Page, http.ResponseWriter, *http.Request, *visitor) error

// gets returns the handlers of pages and their parts.
func gets() map[string]handler {
	return map[string]handler{
		"": (*Page).now, "live": (*Page).sendUpdates, "output": (*Page).output, "code": (*Page).code, "session": (*Page).session,
		"ran": (*Page).ran, "run": (*Page).run, "evidence": (*Page).evidence, "file": (*Page).file, "export": (*Page).export,
		"policy": (*Page).policy, "doctor": (*Page).doctor, "charts": (*Page).charts, "changes": (*Page).changes,
	}
}

// posts returns the handlers of changes.
func posts() map[string]handler {
	return map[string]handler{
		"answer": (*Page).answer, "interrupt": (*Page).interrupt, "end": (*Page).endSession, "cell": (*Page).cell, "leave": (*Page).leave,
		"decide": (*Page).decideChanges,
	}
}
