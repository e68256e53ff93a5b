package page

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// showing is a cell that shows a picture, a drawing with a script in it, and a value.
const showing = `
import base64
class Shows:
    def __init__(self, kind, what): self.kind, self.what = kind, what
    def _repr_mimebundle_(self, **_): return {self.kind: self.what}
display(Shows("image/png", "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="))
display(Shows("image/svg+xml", "<svg onload='pwned=1'>drawn</svg>"))
6 * 7
`

// TestStoryShows: a finished run's story has its pictures as pictures, its value and drawings as text, its error, and a
// note about missing parts.
func TestStoryShows(t *testing.T) {
	s := serve(t)
	_, _, err := pipeline.Do(t.Context(), s.pipe, session.New{Namespace: "team", Language: "python"})
	must(t, err)
	id := session.List(s.pipe, "team")[0].ID
	cell := func(code string) pipeline.Outcome {
		_, res, _ := pipeline.Do(t.Context(), s.pipe, run.Request{
			Namespace: "team", Where: run.Where{Session: id}, Code: []byte(code),
		})
		return res
	}
	good, bad := cell(showing), cell("raise ValueError('<b>wrong</b>')")
	if good.Value == nil || len(good.Displays) != 2 {
		t.Fatalf("got %+v", good)
	}
	v := s.as(boss)
	_, text := v.load("run?id=" + good.ID)
	for _, want := range []string{`<img src="data:image/png;base64,iVBOR`, `>42</pre>`, "&lt;svg onload="} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(text, "<svg onload") || strings.Contains(text, "data:image/svg") {
		t.Error("a drawing is not text")
	}
	if _, text := v.load("run?id=" + bad.ID); !strings.Contains(text, "ValueError: &lt;b&gt;wrong") {
		t.Errorf("no error in %s", text)
	}
	if resp, text := v.load("file?id=" + good.ID + "&name=result"); resp.StatusCode != http.StatusOK || !strings.Contains(text, "drawn") {
		t.Errorf("the result: got %d %s", resp.StatusCode, text)
	}
	other := s.as(identity.Identity{Name: "bob", Kind: identity.Person, Source: identity.FromPeer, Namespaces: identity.Only("else")})
	if resp, text := other.load("file?id=" + good.ID + "&name=result"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("of another namespace: got %d %s", resp.StatusCode, text)
	}
	long := s.ran("team", "shell", "head -c 17000000 /dev/zero | tr '\\0' x")
	if _, text := v.load("run?id=" + long.ID); long.StdoutCut == 0 || !strings.Contains(text, wordFor("lost_output")) {
		t.Errorf("%d bytes are missing, and nobody is told", long.StdoutCut)
	}
}

// TestWrongRequests: requests that no page of ours sends are refused with the right status, and HEAD is answered as
// GET, without a body.
func TestWrongRequests(t *testing.T) {
	s := serve(t)
	v := s.as(boss)
	for _, seconds := range []string{"NaN", "Inf", "-Inf", "-1", "1e300", "x", ""} {
		q, err := s.broker.Open(t.Context(), approval.Question{Kind: approval.Host, What: "git push", Namespace: "team"})
		must(t, err)
		if resp, text := v.post("answer", url.Values{"id": {q.Question.ID}, "how": {approval.ScopeTime}, "seconds": {seconds}}); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q seconds: got %d %s", seconds, resp.StatusCode, text)
		}
	}
	for path, want := range map[string]int{"": 200, "ran": 200, "policy": 200, "charts": 200, "doctor": 200, "nothing": 404, "run?id=x": 404, "page.css": 200, "answer": 404, "live": 405} {
		resp, body := v.send("HEAD", v.room+path, nil)
		if resp.StatusCode != want || body != "" || resp.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("HEAD %s: got %d, %q", path, resp.StatusCode, body)
		}
	}
	if resp, _ := v.send("HEAD", v.base, nil); resp.StatusCode != http.StatusOK {
		t.Errorf("HEAD of the gate: got %d", resp.StatusCode)
	}
	if resp, _ := v.send("PUT", v.room, nil); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("PUT: got %d", resp.StatusCode)
	}
}

// TestExports: one identity has two exports at once, and all have four.
func TestExports(t *testing.T) {
	s := serve(t)
	v := s.as(boss)
	hold := func(name string) (func(), bool) {
		i := identity.Identity{Name: name, Kind: identity.Person, Namespaces: identity.All(), Source: identity.FromPeer}
		_, leave, err := s.long["export"].Acquire(t.Context(), i.String())
		return leave, err == nil
	}
	export := func() int { resp, _ := v.load("export?format=csv"); return resp.StatusCode }
	first, _ := hold(boss.Name)
	if got := export(); got != http.StatusOK {
		t.Errorf("the second: got %d", got)
	}
	_, ok := hold(boss.Name)
	if got := export(); !ok || got != http.StatusTooManyRequests {
		t.Errorf("the third: got %d", got)
	}
	first()
	for _, name := range []string{"bob", "eve", "joe"} {
		if _, ok := hold(name); !ok {
			t.Errorf("%s gets none", name)
		}
	}
	if got := export(); got != http.StatusTooManyRequests {
		t.Errorf("the fifth of all: got %d", got)
	}
}

// TestStreamsEnd: streams that a browser follows, and typed code, end with the right to them.
func TestStreamsEnd(t *testing.T) {
	s := serve(t)
	unlogged := func(identity.Token) error { return nil }
	token, made, err := s.tokens.Create(t.Context(), identity.Token{Name: "bob", Kind: identity.Person, Namespaces: identity.Only("team"), Expires: time.Now().Add(time.Hour)}, unlogged)
	must(t, err)
	revoked := s.visitor()
	if resp, text := revoked.submitCode(url.Values{"bearer": {token}}); resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("got %d %s", resp.StatusCode, text)
	}
	_, _, err = pipeline.Do(t.Context(), s.pipe, session.New{Namespace: "team", Language: "shell"})
	must(t, err)
	if resp, text := revoked.post("cell", url.Values{"id": {session.List(s.pipe, "team")[0].ID}, "code": {"while :; do sleep 0.1; done"}}); resp.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", resp.StatusCode, text)
	}
	expires := s.as(identity.Identity{Name: "ada", Kind: identity.Person, Namespaces: identity.All(), Source: identity.FromJWT, Expires: time.Now().Add(2 * time.Second)})
	streams := map[string]*http.Response{}
	for name, v := range map[string]*visit{"a revoked token's": revoked, "an expired JWT's": expires} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", v.room+"live", nil)
		must(t, err)
		streams[name], err = v.http.Do(req)
		must(t, err)
		defer streams[name].Body.Close()
	}
	_, err = s.tokens.Revoke(t.Context(), made.ID, unlogged)
	must(t, err)
	for name, resp := range streams {
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s stream: got %d", name, resp.StatusCode)
		}
		for b := make([]byte, 4096); err == nil; { // the test's deadline is the bound
			_, err = resp.Body.Read(b)
		}
		err = nil
	}
	hosttest.Until(t, "what was typed has ended", func() bool { return len(s.pipe.ListRunning("team")) == 0 })
	if resp, _ := expires.load(""); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("after the JWT: got %d", resp.StatusCode)
	}
}

// TestEndedMeanwhile: code that is typed just when its credentials end does not run.
func TestEndedMeanwhile(t *testing.T) {
	s := serve(t)
	_, _, err := pipeline.Do(t.Context(), s.pipe, session.New{Namespace: "team", Language: "shell"})
	must(t, err)
	v := s.as(identity.Identity{Name: "ada", Kind: identity.Person, Namespaces: identity.All(), Source: identity.FromJWT})
	s.Page.c.Watch = func(ctx context.Context, _ identity.Identity) (context.Context, context.CancelCauseFunc, bool) {
		ctx, end := context.WithCancelCause(ctx)
		return ctx, end, false
	}
	id := session.List(s.pipe, "team")[0].ID
	if resp, text := v.post("cell", url.Values{"id": {id}, "code": {"echo ran"}}); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %d %s", resp.StatusCode, text)
	}
	s.Page.Close()
	if n := session.List(s.pipe, "team")[0].Cells; n != 0 {
		t.Errorf("%d cells ran", n)
	}
}

// TestLongCode: code of any size is displayed within bounds, and the page reports all dangers in it and the omitted
// part.
func TestLongCode(t *testing.T) {
	tail := validate.Danger{Line: 3, Severity: "high", Reason: "removes everything"}
	for name, code := range map[string]string{
		"a long line":  "a\n" + strings.Repeat("\u00e9x", 4<<20) + "\nrm -rf /",
		"many lines":   "a\n" + strings.Repeat("\n", 50_000) + "rm",
		"no UTF-8":     strings.Repeat("\x80", 3<<20) + "\n\nrm",
		"a short line": "a\nb\nrm -rf /",
	} {
		d := tail
		if name == "many lines" {
			d.Line = 50_002
		}
		v := marked(control.Code{Code: code, Dangers: []validate.Danger{d}})
		size, dangers := int64(0), 0
		for _, l := range v.Lines {
			size, dangers = size+int64(len(l.Text)), dangers+len(l.Dangers)
		}
		if len(v.Lines) > maxLines || size > 8*maxCode || dangers != 1 || (v.Left > 0) != (name != "a short line") {
			t.Errorf("%s: %d lines, %d bytes, %d left out, %d dangers", name, len(v.Lines), size, v.Left, dangers)
		}
	}
}
