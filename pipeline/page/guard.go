package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// contentPolicy lets a browser load and run only our own files, send requests only to us, and show the page in no
// frame. Pictures may be embedded, as those of programs are; a picture runs nothing. Only one function of our script
// converts text to HTML.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types sandboxmcp"

// secure sets the strictest headers for browsers.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // no-referrer would hide the origin of forms from us too
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-store")
}

// isSameOrigin reports whether our own page sent a request that changes something, according to the browser.
func (p *Page) isSameOrigin(r *http.Request) bool {
	if site := r.Header.Values("Sec-Fetch-Site"); len(site) > 1 || len(site) == 1 && site[0] != "same-origin" {
		return false
	}
	origins := r.Header.Values("Origin")
	if len(origins) != 1 {
		return false
	}
	_, host, ok := strings.Cut(origins[0], "://")
	return ok && strings.EqualFold(host, r.Host) || slices.Contains(p.c.Origins, origins[0])
}

// signIn shows the sign-in page.
func (p *Page) signIn(w http.ResponseWriter, r *http.Request, status int, problem string) {
	up := ""
	if strings.HasPrefix(r.URL.Path, "/~") {
		up = "../"
	}
	p.render(w, status, "gate", view{Title: wordFor("gate_title"), Up: up, Data: map[string]any{
		"Room": secret(), "Problem": problem, "Out": r.URL.Query().Has("out"), "Tokens": p.c.Identify != nil}})
}

// signInWith begins a session for a code, or a person's token.
func (p *Page) signInWith(w http.ResponseWriter, r *http.Request, room string) {
	if err := readForm(r, 16<<10); p.refuseLargeForm(w, r, err) {
		return
	} else if err != nil {
		p.fail(w, r, http.StatusBadRequest, wordFor("old_page"))
		return
	}
	i, problem := p.admits(r)
	if problem != "" {
		p.signIn(w, r, http.StatusForbidden, problem)
		return
	}
	cookie := p.visitors.admit(i, room)
	if cookie == "" {
		p.signIn(w, r, http.StatusServiceUnavailable, wordFor("too_many"))
		return
	}
	p.cells.Go(func() { // the first time takes a while, so start early
		_, _ = control.Call(identity.With(p.ctx, i), p.c.Client, control.GetFigures, control.FiguresQuery{Days: 1})
	})
	// Without a path, the cookie's path is the directory of the request as the browser sees it, even below the path
	// of a proxy.
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: cookie, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://")})
	w.Header().Set("Location", "./")
	w.WriteHeader(http.StatusSeeOther)
}

// admits returns the identity of a code or token, or the reason of a refusal.
func (p *Page) admits(r *http.Request) (identity.Identity, string) {
	if code := r.PostForm.Get("code"); code != "" {
		i, ok := p.visitors.redeemCode(code)
		if ok && p.c.Watch != nil { // its creator may have lost access meanwhile
			var end context.CancelCauseFunc
			_, end, ok = p.c.Watch(r.Context(), i)
			end(nil)
		}
		if !ok {
			return i, wordFor("bad_code")
		}
		return i, ""
	}
	if p.c.Identify == nil {
		return identity.Identity{}, wordFor("bad_code")
	}
	q := r.Clone(r.Context())
	q.Header.Set("Authorization", "Bearer "+strings.TrimSpace(r.PostForm.Get("bearer")))
	i, err := p.c.Identify(q)
	switch refused := (*door.Refused)(nil); {
	case errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests:
		return i, wordFor("too_often")
	case err != nil:
		return i, wordFor("bad_token")
	case i.Kind != identity.Person:
		return i, wordFor("agents_token")
	}
	return i, ""
}

// leave ends the session.
func (p *Page) leave(w http.ResponseWriter, _ *http.Request, v *visitor) error {
	p.visitors.drop(v)
	http.SetCookie(w, &http.Cookie{Name: cookieName, MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.Header().Set("Clear-Site-Data", `"storage"`)
	w.Header().Set("Location", "../?out")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// fail reports that a request has no effect. Scripts get a line of text.
func (p *Page) fail(w http.ResponseWriter, r *http.Request, status int, text string) {
	if r.Header.Get("Sec-Fetch-Mode") == "cors" || r.Header.Get("Accept") == "text/event-stream" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		fmt.Fprintln(w, text)
		return
	}
	up := "./"
	if strings.HasPrefix(r.URL.Path, "/~") && strings.Count(r.URL.Path, "/") == 1 {
		up = "../"
	}
	p.render(w, status, "failed", view{Title: wordFor("failed_title"), Data: map[string]any{"Problem": text, "Back": up}})
}

// failed reports an error of the API, or of calling it.
func (p *Page) failed(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusBadGateway, err.Error()
	if f := (*control.Failure)(nil); errors.As(err, &f) {
		status = f.Status
		if f.Hint != "" {
			text += ": " + f.Hint
		}
	} else if refused := (*door.Refused)(nil); errors.As(err, &refused) {
		status = refused.Status
	}
	p.fail(w, r, status, text)
}

// done returns to the page of a form, unless the request failed. Scripts only need the status.
func (p *Page) done(w http.ResponseWriter, r *http.Request, err error) error {
	if err != nil {
		return err
	}
	if r.Header.Get("Sec-Fetch-Mode") == "cors" {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.Header().Set("Location", "./")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}
