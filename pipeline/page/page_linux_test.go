package page

import (
	"context"
	"errors"
	"fmt"
	"html"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// TestHeaders: no answer of any kind lacks the headers that keep browsers strict.
func TestHeaders(t *testing.T) {
	s := serve(t)
	v := s.as(boss)
	for _, at := range []string{s.base, s.base + "page.css", s.base + "page.js?v=" + edition(), s.base + "~x/", v.room, v.room + "ran",
		v.room + "run?id=none", v.room + "policy",
		v.room + "charts", v.room + "doctor", v.room + "nothing", v.room + "page.js", v.room + "file?id=x&name=y", v.room + "enter",
		v.room + "session?id=x"} {
		resp, _ := v.send("GET", at, nil)
		for name, want := range map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", at, name, got)
			}
		}
		policy := resp.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
			"form-action 'self'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy lacks %s: %s", at, part, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http:") || strings.Contains(policy, "*") {
			t.Errorf("%s: %s", at, policy)
		}
		if resp.Header.Get("Cache-Control") != "no-store" && !strings.Contains(at, edition()) {
			t.Errorf("%s may be kept: %s", at, resp.Header.Get("Cache-Control"))
		}
	}
}

// TestGetIn: a code is good once and for two minutes, and makes a cookie that neither scripts nor other sites have.
func TestGetIn(t *testing.T) {
	s := serve(t)
	v := s.visitor()
	code := s.invitation(boss)
	resp, _ := v.submitCode(url.Values{"code": {code}})
	cookies := resp.Cookies()
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "./" || len(cookies) != 1 {
		t.Fatalf("got %d, %v", resp.StatusCode, resp.Header)
	}
	if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "" || c.Domain != "" || c.Secure ||
		len(c.Value) != 32 {
		t.Errorf("got %+v", c)
	}
	if resp, _ := v.load(""); resp.StatusCode != http.StatusOK {
		t.Errorf("inside: got %d", resp.StatusCode)
	}
	if resp, text := s.visitor().submitCode(url.Values{"code": {code}}); resp.StatusCode != http.StatusForbidden || len(resp.Cookies()) > 0 ||
		!strings.Contains(text, wordFor("bad_code")) {
		t.Errorf("a second time: got %d", resp.StatusCode)
	}
	late := s.invitation(boss)
	s.visitors.now = func() time.Time { return time.Now().Add(inviteTime) }
	if resp, _ := s.visitor().submitCode(url.Values{"code": {late}}); resp.StatusCode != http.StatusForbidden {
		t.Errorf("too late: got %d", resp.StatusCode)
	}
	for _, bad := range []string{"", "x", strings.Repeat("a", 32), strings.Repeat("a", 10_000)} {
		if resp, _ := s.visitor().submitCode(url.Values{"code": {bad}}); resp.StatusCode != http.StatusForbidden || len(resp.Cookies()) > 0 {
			t.Errorf("%.40q: got %d", bad, resp.StatusCode)
		}
	}
	s.visitors.now = time.Now
	resp, _ = s.visitor().submitCode(url.Values{"code": {s.invitation(boss)}}, "Origin", "https://agents.example.com")
	if c := resp.Cookies(); len(c) != 1 || !c[0].Secure {
		t.Errorf("behind a proxy with TLS: got %+v", c)
	}
}

// TestOtherSites: no request has an effect that another site, another port or a frame made the browser send, with the
// cookie or a stolen one.
func TestOtherSites(t *testing.T) {
	s := serve(t)
	v := s.as(boss)
	question, err := s.broker.Open(t.Context(), approval.Question{Kind: approval.Host, What: "git push", Namespace: "team"})
	must(t, err)
	token := v.token()
	form := func() url.Values {
		return url.Values{"id": {question.Question.ID}, "how": {approval.ScopeTime}, "token": {token}}
	}
	for name, headers := range map[string][]string{
		"another site":              {"Origin", "https://evil.example"},
		"another port":              {"Origin", "http://127.0.0.1:1"},
		"a sandboxed frame":         {"Origin", "null"},
		"no origin":                 {"-Origin", ""},
		"a neighbour":               {"Sec-Fetch-Site", "same-site"},
		"another site, as it says":  {"Sec-Fetch-Site", "cross-site"},
		"a suffix of the host":      {"Origin", s.base + ".evil.example"},
		"a name that is not a host": {"Origin", strings.TrimPrefix(strings.TrimSuffix(s.base, "/"), "http://")},
	} {
		if resp, _ := v.post("answer", form(), headers...); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: got %d", name, resp.StatusCode)
		}
		if resp, _ := s.visitor().submitCode(url.Values{"code": {s.invitation(boss)}}, headers...); len(resp.Cookies()) > 0 {
			t.Errorf("%s lets a browser in", name)
		}
	}
	for name, bad := range map[string]string{"no token": "", "another token": strings.Repeat("a", 32),
		"another session's": s.as(boss).token()} {
		f := form()
		f.Set("token", bad)
		if resp, _ := v.post("answer", f); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: got %d", name, resp.StatusCode)
		}
	}
	for _, path := range []string{"answer", "interrupt", "end", "cell", "leave"} {
		if resp, _ := v.load(path + "?" + form().Encode()); resp.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: got %d", path, resp.StatusCode)
		}
	}
	// A cookie that another server of this host was sent is nothing without the path that it belongs to.
	at, err := url.Parse(v.room)
	must(t, err)
	stolen := v.http.Jar.Cookies(at)[0].Value
	thief := s.visitor()
	for _, room := range []string{s.base + "~" + secret() + "/", s.base + "~" + strings.Repeat("a", 32) + "/", s.base} {
		if resp, text := thief.send("GET", room, nil, "Cookie", cookieName+"="+stolen); strings.Contains(text, "git push") ||
			resp.StatusCode == http.StatusOK && room != s.base {
			t.Errorf("%s with a stolen cookie: got %d", room, resp.StatusCode)
		}
	}
	if cookies := v.http.Jar.Cookies(&url.URL{Scheme: "http", Host: at.Host, Path: "/"}); len(cookies) > 0 {
		t.Errorf("the cookie goes beyond its path: %v", cookies)
	}
	if len(s.broker.Pending()) != 1 {
		t.Error("the question was answered")
	}
	if resp, _ := v.post("answer", form()); resp.StatusCode != http.StatusSeeOther || len(s.broker.Pending()) != 0 {
		t.Errorf("our own page: got %d", resp.StatusCode)
	}
}

// TestSessionsEnd: without use, after half a day, when somebody signs out, and with the token.
func TestSessionsEnd(t *testing.T) {
	s := serve(t)
	gone := func(name string, v *visit) {
		t.Helper()
		if resp, text := v.load(""); resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "../?out" || text != "" {
			t.Errorf("%s: got %d %s", name, resp.StatusCode, text)
		}
		if resp, _ := v.load("live", "Accept", "text/event-stream"); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: a stream is %d", name, resp.StatusCode)
		}
	}
	v := s.as(boss)
	if resp, _ := v.post("leave", url.Values{}); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("got %d", resp.StatusCode)
	}
	gone("signed out", v)
	v = s.as(boss)
	s.visitors.now = func() time.Time { return time.Now().Add(idleTime) }
	gone("unused", v)
	v = s.as(boss)
	for after := idleTime; after < fullTime+idleTime; after += idleTime / 2 {
		s.visitors.now = func() time.Time { return time.Now().Add(after) }
		if resp, _ := v.load(""); (resp.StatusCode == http.StatusOK) != (after < fullTime+idleTime) {
			t.Errorf("after %v: got %d", after, resp.StatusCode)
		}
	}
	s.visitors.now = func() time.Time { return time.Now().Add(fullTime + 2*idleTime) }
	gone("after half a day", v)
	s.visitors.now = time.Now

	unlogged := func(identity.Token) error { return nil }
	token, made, err := s.tokens.Create(t.Context(), identity.Token{Name: "bob", Kind: identity.Person, Namespaces: identity.Only("team"),
		Expires: time.Now().Add(time.Hour)}, unlogged)
	must(t, err)
	v = s.visitor()
	if resp, text := v.submitCode(url.Values{"bearer": {token}}); resp.StatusCode != http.StatusSeeOther {
		t.Fatalf("a person's token: got %d %s", resp.StatusCode, text)
	}
	if resp, _ := v.load(""); resp.StatusCode != http.StatusOK {
		t.Errorf("got %d", resp.StatusCode)
	}
	_, err = s.tokens.Revoke(t.Context(), made.ID, unlogged)
	must(t, err)
	hosttest.Until(t, "the session ends with its token", func() bool { resp, _ := v.load(""); return resp.StatusCode == http.StatusSeeOther })
	agents, _, err := s.tokens.Create(t.Context(), identity.Token{Name: "ci", Kind: identity.Agent, Namespaces: identity.Only("team"),
		Expires: time.Now().Add(time.Hour)}, unlogged)
	must(t, err)
	if resp, text := s.visitor().submitCode(url.Values{"bearer": {agents}}); resp.StatusCode != http.StatusForbidden ||
		len(resp.Cookies()) > 0 || !strings.Contains(text, "agent") {
		t.Errorf("an agent's token: got %d %s", resp.StatusCode, text)
	}
}

// TestNamespaces: a person of some namespaces learns nothing of others, and changes nothing there, by no part of the
// page.
func TestNamespaces(t *testing.T) {
	s := serve(t)
	res := s.ran("covert", "shell", "echo OUTPUT-OF-HIDDEN > left.txt; echo OUTPUT-OF-HIDDEN")
	_, _, err := pipeline.Do(t.Context(), s.pipe, session.New{Namespace: "covert", Language: "shell"})
	must(t, err)
	session := session.List(s.pipe, "covert")[0].ID
	question, err := s.broker.Open(t.Context(), approval.Question{Kind: approval.Host, What: "WHAT-IS-HIDDEN", Namespace: "covert"})
	must(t, err)
	ended := make(chan pipeline.Outcome, 1)
	go func() { ended <- s.ran("covert", "shell", "echo RUNS-HIDDEN; while ! [ -e /x ]; do sleep 0.05; done") }()
	running := ""
	hosttest.Until(t, "it runs", func() bool {
		for _, r := range s.pipe.ListRunning("covert") {
			if r.Program {
				running = r.Run
			}
		}
		return running != ""
	})
	v := s.as(identity.Identity{Name: "bob", Kind: identity.Person, Source: identity.FromPeer, Namespaces: identity.Only("team")})
	for _, path := range []string{"", "ran", "ran?rows=all", "ran?namespace=covert", "ran?text=covert", "run?id=" + res.ID,
		"run?id=" + running, "evidence?id=" + res.ID, "file?id=" + res.ID + "&name=stdout",
		"file?id=" + res.ID + "&name=files/left.txt", "file?id=" + res.ID + "&name=receipt", "export?format=jsonl&rows=all", "export?format=csv",
		"code?id=" + running, "output?id=" + running,
		"session?id=" + session, "policy", "charts", "charts?namespace=covert", "doctor"} {
		_, text := v.load(path)
		for _, secret := range []string{"OUTPUT-OF-HIDDEN", "WHAT-IS-HIDDEN", "RUNS-HIDDEN", "agent-of-covert", "secret-place", "/etc/x.yaml",
			">covert<", `"covert"`} {
			if strings.Contains(text, secret) && !strings.Contains(path, strings.Trim(secret, `<>"`)) {
				t.Errorf("%s tells %s: %s", path, secret, text)
			}
		}
		if strings.Contains(text, res.ID) && !strings.Contains(path, res.ID) || strings.Contains(text, session) &&
			!strings.Contains(path, session) {
			t.Errorf("%s tells an id", path)
		}
	}
	for path, form := range map[string]url.Values{
		"answer": {"id": {question.Question.ID}, "how": {"deny"}}, "interrupt": {"id": {running}, "how": {"kill"}}, "end": {"id": {session}},
		"cell": {"id": {session}, "code": {"echo x"}},
	} {
		if resp, text := v.post(path, form); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got %d %s", path, resp.StatusCode, text)
		}
	}
	all := s.as(boss)
	for path, want := range map[string]string{"": "WHAT-IS-HIDDEN", "ran": res.ID, "run?id=" + res.ID: "OUTPUT-OF-HIDDEN",
		"code?id=" + running: "RUNS-HIDDEN", "session?id=" + session: session,
		"policy": "secret-place", "charts": "covert", "file?id=" + res.ID + "&name=files/left.txt": "OUTPUT-OF-HIDDEN", "doctor": "layer",
		"export?format=jsonl": `"agent-of-covert"`} {
		if resp, text := all.load(path); resp.StatusCode != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("the operator, %s: got %d without %s", path, resp.StatusCode, want)
		}
	}
	if resp, text := all.post("interrupt", url.Values{"id": {running}, "how": {"kill"}}); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("got %d %s", resp.StatusCode, text)
	}
	<-ended
}

// TestDecisions: each decision on the page is a row that names the person and the page.
func TestDecisions(t *testing.T) {
	s := serve(t)
	v := s.as(boss)
	for _, how := range []string{approval.ScopeTime, "deny"} {
		q, err := s.broker.Open(t.Context(), approval.Question{Kind: approval.Host, What: "git " + how, Namespace: "team",
			Reason: "<b>really</b>"})
		must(t, err)
		if _, text := v.load(""); !strings.Contains(text, "git "+how) || !strings.Contains(text, "&lt;b&gt;really") {
			t.Errorf("the question is not there: %s", text)
		}
		if resp, text := v.post("answer", url.Values{"id": {q.Question.ID}, "how": {how}, "seconds": {"60"}}, "Sec-Fetch-Mode", "cors",
			"Sec-Fetch-Site", "same-origin"); resp.StatusCode != http.StatusNoContent {
			t.Errorf("%s: got %d %s", how, resp.StatusCode, text)
		}
		if a, err := q.Wait(t.Context()); err != nil || a.Allowed != (how != "deny") || a.By != approval.Page() || a.User != "peer:ada" ||
			a.Allowed && time.Until(a.Until) > time.Minute {
			t.Errorf("%s: got %+v, %v", how, a, err)
		}
		if resp, _ := v.post("answer", url.Values{"id": {q.Question.ID}, "how": {"time"}}); resp.StatusCode != http.StatusConflict {
			t.Errorf("a second answer: got %d", resp.StatusCode)
		}
	}
	for _, how := range []string{"", "root", "yes"} {
		if resp, _ := v.post("answer", url.Values{"id": {"x"}, "how": {how}}); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: got %d", how, resp.StatusCode)
		}
	}
	n := 0
	for row, err := range s.log.Rows(t.Context(), audit.Filter{Kinds: []string{"approval.approved", "approval.denied"}}) {
		must(t, err)
		if n++; !strings.Contains(string(row.Data), `"by":"page"`) || !strings.Contains(string(row.Data), `"user":"peer:ada"`) {
			t.Errorf("got %s", row.Data)
		}
	}
	if n != 2 {
		t.Errorf("%d rows", n)
	}
}

// TestChanges: a person sees the changes of a run, chooses some of them, and applies, undoes and drops these. Hostile
// names and lines are text.
func TestChanges(t *testing.T) {
	s := serve(t)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\n"), 0o644))
	_, out, err := pipeline.Do(t.Context(), s.pipe, run.Request{Namespace: "team", Language: "shell",
		Code:      []byte("echo '<b>two</b>' >>a.txt; echo x >'<i>b'; mkdir -p .git/hooks; echo y >.git/hooks/pre-commit"),
		HostFiles: run.HostFiles{Workspace: backends.Mount{Host: dir, Propose: true}}})
	must(t, err)
	set, v := out.Changes.ID, s.as(boss)
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(dir, name))
		return string(b)
	}
	if _, text := v.load("changes"); !strings.Contains(text, "changes?id="+set) || !strings.Contains(text, dir) {
		t.Errorf("the list lacks it: %s", text)
	}
	_, text := v.load("changes?id=" + set)
	for _, part := range []string{"&#43;&lt;b&gt;two", "&lt;i&gt;b", `name="path" value="a.txt" aria-label="a.txt" checked`,
		`value=".git/hooks/pre-commit" aria-label=".git/hooks/pre-commit">`, "Held back: git runs its hooks"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	for _, step := range []struct {
		form     url.Values
		a, after string
	}{
		{url.Values{"how": {"apply"}, "path": {"a.txt"}}, "one\n<b>two</b>\n", ">applied<"},
		{url.Values{"how": {"undo"}}, "one\n", ">undone<"},
		{url.Values{"how": {"drop"}}, "one\n", ">dropped<"},
	} {
		step.form.Set("id", set)
		resp, text := v.post("decide", step.form)
		if resp.StatusCode != http.StatusSeeOther || read("a.txt") != step.a || read("<i>b") != "" {
			t.Errorf("%v: got %d %s, a.txt %q", step.form, resp.StatusCode, text, read("a.txt"))
		}
		if _, text := v.load("changes?id=" + set); !strings.Contains(text, step.after) {
			t.Errorf("%v: no %s in %s", step.form, step.after, text)
		}
	}
	for how, want := range map[string]int{"apply": http.StatusBadRequest, "apply_all": http.StatusUnprocessableEntity,
		"else": http.StatusBadRequest} {
		if resp, text := v.post("decide", url.Values{"id": {set}, "how": {how}}); resp.StatusCode != want {
			t.Errorf("%s of a dropped set: got %d %s", how, resp.StatusCode, text)
		}
	}
	stranger := s.as(identity.Identity{Name: "other", Kind: identity.Person, Namespaces: identity.Only("other"), Source: identity.FromPeer})
	if resp, text := stranger.load("changes?id=" + set); resp.StatusCode != http.StatusNotFound || strings.Contains(text, dir) {
		t.Errorf("a person of another namespace: got %d %s", resp.StatusCode, text)
	}
}

// TestHostileText: whatever a program, an agent or a file is called or says, it is text.
func TestHostileText(t *testing.T) {
	s := serve(t)
	const script, bidi, escape = "<script>pwned()</script><img src=x onerror=pwned()>", "\u202e", "\x1b]0;pwned\x07"
	res := s.ran("team", "python", fmt.Sprintf(`
import sys
text = %q
print(text); print(text, file=sys.stderr)
open('a<img src=x onerror=pwned()>%s.svg', 'w').write('<svg xmlns="http://www.w3.org/2000/svg" onload="pwned()"/>')
print("y" * (10 << 20))
`, script+bidi+escape, bidi))
	if res.Ended != "ok" {
		t.Fatalf("got %+v", res)
	}
	_, err := s.broker.Open(t.Context(), approval.Question{Kind: approval.Host, What: script + bidi, Namespace: "team", Client: script,
		Reason: script + bidi + escape, CodeHead: script + bidi})
	must(t, err)
	_, refused, _ := pipeline.Do(t.Context(), s.pipe, pipeline.Denial{
		Tool: "host_exec", Namespace: "team", What: script + bidi, Reason: script + bidi,
	})
	v := s.as(boss)
	for _, path := range []string{"", "ran", "ran?rows=all", "ran?text=" + url.QueryEscape(script+bidi),
		"ran?agent=" + url.QueryEscape(`"><script>pwned()`), "run?id=" + res.ID, "run?id=" + refused.ID, "run?id=" + url.QueryEscape(script+bidi),
		"session?id=" + url.QueryEscape(script), "charts?namespace=" + url.QueryEscape(`"><script>`), "policy"} {
		resp, text := v.load(path)
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s is %s", path, resp.Header.Get("Content-Type"))
		}
		body := text[strings.Index(text, "<body"):]
		for _, bad := range []string{"<script", "<img src=x", "\x1b", "\x07", "onload=\"pwned"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s has %q", path, bad)
			}
		}
		// text that a person has typed is the person's own
		if found := strings.Index(body, bidi); found >= 0 && !strings.Contains(body[max(0, found-300):found], "<input") {
			t.Errorf("%s has a character that turns text around: %q", path, body[max(0, found-60):found+20])
		}
		if len(text) > 2<<20 {
			t.Errorf("%s has %d bytes", path, len(text))
		}
	}
	svg := res.Artifacts[0].Name
	resp, text := v.load("file?id=" + res.ID + "&name=" + url.QueryEscape("files/"+svg))
	if h := resp.Header; resp.StatusCode != http.StatusOK || h.Get("Content-Type") != "application/octet-stream" ||
		!strings.HasPrefix(h.Get("Content-Disposition"), "attachment;") ||
		strings.ContainsAny(h.Get("Content-Disposition"), "<>\u202e") || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") ||
		!strings.Contains(text, "<svg") {
		t.Errorf("an SVG: got %d %v", resp.StatusCode, resp.Header)
	}
	if resp, text := v.load("file?id=" + res.ID + "&name=stdout"); resp.StatusCode != http.StatusOK || len(text) < 10<<20 {
		t.Errorf("all of the output: got %d, %d bytes", resp.StatusCode, len(text))
	}
	for _, name := range []string{"../../keys/signing.key", "files/../../x", "/etc/passwd", "files/"} {
		if resp, text := v.load("file?id=" + res.ID + "&name=" + url.QueryEscape(name)); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got %d %.100s", name, resp.StatusCode, text)
		}
	}
}

// TestSearch: each field of the form finds the runs that it describes, and no others.
func TestSearch(t *testing.T) {
	s := serve(t)
	hit := s.ran("team", "shell", "echo x > report.txt; exit 3")
	miss := s.ran("else", "shell", "true")
	v := s.as(boss)
	for _, q := range []string{"namespace=team", "outcome=exit", "agent=agent-of-TEAM", "artifact=" + hit.Artifacts[0].SHA256[:12],
		"text=report.txt", "since=" + time.Now().AddDate(0, 0, -1).Format(time.DateOnly) + "&namespace=team"} {
		_, text := v.load("ran?" + q)
		if !strings.Contains(text, hit.ID) || strings.Contains(text, miss.ID) {
			t.Errorf("%s: it is there: %v, and so is the other: %v", q, strings.Contains(text, hit.ID), strings.Contains(text, miss.ID))
		}
	}
	for _, q := range []string{"until=2020-01-01", "secret=NONE", "domain=example.com", "text=" + url.QueryEscape("%"), "before=1"} {
		if _, text := v.load("ran?" + q); strings.Contains(text, hit.ID) {
			t.Errorf("%s finds it", q)
		}
	}
	if resp, text := v.load("ran?since=yesterday"); resp.StatusCode != http.StatusOK || !strings.Contains(text, "yesterday") ||
		!strings.Contains(text, `role="alert"`) {
		t.Errorf("no time: got %d", resp.StatusCode)
	}
	for range pageRows {
		pipeline.Do(t.Context(), s.pipe, pipeline.Denial{Tool: "host_exec", Namespace: "team", What: "x", Reason: "y"})
	}
	_, text := v.load("ran?namespace=team")
	if n := strings.Count(text, "<tr>") - 1; n != pageRows || !strings.Contains(text, `id="older"`) || strings.Contains(text, hit.ID) {
		t.Errorf("%d rows", n)
	}
}

// TestExport: the links below a search export the runs that it found, and no others.
func TestExport(t *testing.T) {
	s := serve(t)
	hit, miss := s.ran("team", "shell", "exit 3"), s.ran("team", "shell", "true")
	v := s.as(boss)
	_, text := v.load("ran?outcome=exit&namespace=team")
	links := regexp.MustCompile(`href="(export[?][^"]*)"`).FindAllStringSubmatch(text, -1)
	if len(links) != 2 {
		t.Fatalf("got %v", links)
	}
	for _, link := range links {
		if resp, rows := v.load(html.UnescapeString(link[1])); resp.StatusCode != http.StatusOK || !strings.Contains(rows, hit.ID) ||
			strings.Contains(rows, miss.ID) {
			t.Errorf("%s: got %d %s", link[1], resp.StatusCode, rows)
		}
	}
}

// TestTypedByOthers: the output of a cell that somebody typed is not for people of other namespaces, even if they know
// the run.
func TestTypedByOthers(t *testing.T) {
	s := serve(t)
	_, _, err := pipeline.Do(t.Context(), s.pipe, session.New{Namespace: "covert", Language: "shell"})
	must(t, err)
	v := s.as(boss)
	resp, text := v.post("cell", url.Values{"id": {session.List(s.pipe, "covert")[0].ID}, "code": {"echo OUTPUT-OF-HIDDEN"}})
	run := regexp.MustCompile(`[0-9A-Z]{26}`).FindString(text)
	if run == "" {
		t.Fatalf("got %d %s", resp.StatusCode, text)
	}
	hosttest.Until(t, "it has ended", func() bool { return len(s.pipe.ListRunning("covert")) == 0 })
	if _, text := v.load("output?id=" + run); !strings.Contains(text, "OUTPUT-OF-HIDDEN") {
		t.Errorf("who typed it gets %s", text)
	}
	for _, other := range []identity.Identity{
		{Name: "bob", Kind: identity.Person, Source: identity.FromPeer, Namespaces: identity.Only("team")},
		{Name: "ada", Kind: identity.Person, Source: identity.FromPeer, Namespaces: identity.Only("team")},
	} {
		if _, text := s.as(other).load("output?id=" + run); strings.Contains(text, "OUTPUT-OF-HIDDEN") {
			t.Errorf("%s of another namespace gets %s", other, text)
		}
	}
}

// TestInvitations: a person who asks for many codes takes none of other people's, learns when there is none left, and
// no code is valid once its maker's token is not.
func TestInvitations(t *testing.T) {
	s := serve(t)
	bob := identity.Identity{Name: "bob", Kind: identity.Person, Source: identity.FromPeer, Namespaces: identity.Only("team")}
	made := 0
	for range 2 * maxVisits {
		code, err := s.Invite(bob)
		if failed, is := errors.AsType[*control.Failure](err); is != (code == "") || is && (failed.Status != http.StatusTooManyRequests ||
			failed.Hint == "") {
			t.Fatalf("got %q, %v", code, err)
		}
		if err == nil {
			made++
		}
	}
	if made != maxInvites {
		t.Errorf("one identity has %d codes, want %d", made, maxInvites)
	}
	s.as(boss)
	s.visitors.now = func() time.Time { return time.Now().Add(inviteTime) }
	s.as(bob)
	s.visitors.now = time.Now
	_, token, err := s.tokens.Create(t.Context(), identity.Token{Name: "eve", Kind: identity.Person, Namespaces: identity.Only("team")}, nil)
	must(t, err)
	code := s.invitation(identity.Identity{Name: "eve", Kind: identity.Person, Source: identity.FromToken, Token: token.ID})
	_, err = s.tokens.Revoke(t.Context(), "eve", nil)
	must(t, err)
	if resp, _ := s.visitor().submitCode(url.Values{"code": {code}}); resp.StatusCode != http.StatusForbidden || len(resp.Cookies()) > 0 {
		t.Errorf("of a token that was revoked: got %d", resp.StatusCode)
	}
}

// TestCrowd: one identity leaves room for others, however many browsers and windows it has.
func TestCrowd(t *testing.T) {
	s := serve(t)
	bob := s.as(identity.Identity{Name: "bob", Kind: identity.Person, Source: identity.FromPeer, Namespaces: identity.Only("team")})
	first := s.as(boss)
	var last *visit
	for range maxVisits {
		last = s.as(boss)
	}
	for name, one := range map[string]struct {
		v    *visit
		want int
	}{"another one": {bob, http.StatusOK}, "the first": {first, http.StatusSeeOther}, "the last": {last, http.StatusOK}} {
		if resp, _ := one.v.load(""); resp.StatusCode != one.want {
			t.Errorf("%s: got %d", name, resp.StatusCode)
		}
	}
	live := func(v *visit) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "GET", v.room+"live", nil)
		must(t, err)
		req.Header.Set("Accept", "text/event-stream")
		resp, err := v.http.Do(req)
		must(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		// a browser that leaves a page reads its stream on for five seconds otherwise, and the next pages wait for one
		// of six connections
		if resp.StatusCode == http.StatusOK && !resp.Close {
			t.Error("the connection of a stream is to be used again")
		}
		return resp
	}
	var some *http.Response
	for n := range maxStreams {
		if some = live(last); some.StatusCode != http.StatusOK {
			t.Fatalf("window %d: got %d", n, some.StatusCode)
		}
	}
	if resp := live(last); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more: got %d", resp.StatusCode)
	}
	if resp := live(bob); resp.StatusCode != http.StatusOK {
		t.Errorf("another one: got %d", resp.StatusCode)
	}
	some.Body.Close()
	hosttest.Until(t, "there is room again", func() bool { return live(last).StatusCode == http.StatusOK })
}

// figured notes that the log was read for figures.
type figured struct {
	*audit.Log
	times *atomic.Int32
}

func (f figured) Rows(ctx context.Context, q audit.Filter) iter.Seq2[audit.Row, error] {
	if slices.Contains(q.Kinds, "egress.approved") {
		f.times.Add(1)
	}
	return f.Log.Rows(ctx, q)
}

// TestFiguresBegin: the figures of the charts are added up as soon as a person enters, before the person opens the
// charts.
func TestFiguresBegin(t *testing.T) {
	s := serve(t)
	var times atomic.Int32
	api := control.New(control.Config{Pipeline: s.pipe, Records: figured{s.log, &times}})
	t.Cleanup(api.Close)
	p := New(Config{Client: control.LocalClient(api)})
	t.Cleanup(p.Close)
	r := httptest.NewRequest("POST", "/~"+secret()+"/enter", strings.NewReader("code="+invitation(t, p, boss)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://"+r.Host)
	w := httptest.NewRecorder()
	if p.ServeHTTP(w, r); w.Code != http.StatusSeeOther {
		t.Fatalf("got %d", w.Code)
	}
	hosttest.Until(t, "figures are added up", func() bool { return times.Load() > 0 })
}
