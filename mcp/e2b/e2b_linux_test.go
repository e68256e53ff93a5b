package e2b

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// rig is a server with a real pipeline.
type rig struct {
	t      *testing.T
	s      *Server
	p      *pipeline.Pipeline
	url    string
	tokens *identity.Tokens
	log    *audit.Log
}

func newRig(t *testing.T, change func(*pipeline.Config)) *rig {
	t.Helper()
	dir := t.TempDir()
	log, err := audit.Open(t.Context(), filepath.Join(dir, "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	backend := process.New(process.Config{StateDir: filepath.Join(dir, "state")})
	probe, err := backend.Probe(t.Context(), backends.Spec{Require: backends.ContainmentLayers})
	if err != nil || !probe.Usable {
		backend.Close()
		hosttest.SkipMissing(t, "sandbox", fmt.Sprint(err, probe.Why))
	}
	policy, err := egress.NewPolicy([]string{"api.example.com", "*.example.org"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := pipeline.Config{Backends: []backends.Backend{backend}, Audit: log, Vault: vault.New(vault.NewMemory()),
		Egress: pipeline.Egress{Policy: policy}}
	if change != nil {
		change(&cfg)
	}
	p := pipeline.New(cfg)
	tokens := identity.OpenTokens(filepath.Join(dir))
	s := New(Config{Pipeline: p, Identities: identity.New(identity.Config{Tokens: tokens, Rate: 1e6}), Wall: time.Hour,
		Templates: map[string]Template{"mine": {}, "project": {Workspace: "app"}}})
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		s.Close()
		p.Close()
		backend.Close()
		log.Close()
	})
	return &rig{t, s, p, server.URL, tokens, log}
}

// key creates a token, in the SDKs' format.
func (r *rig) key(name string, kind identity.Kind, namespaces ...string) string {
	r.t.Helper()
	token, _, err := r.tokens.Create(r.t.Context(), identity.Token{Name: name, Kind: kind, Namespaces: identity.Only(namespaces...)}, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return identity.ToE2B(token)
}

// answer is the response to a request.
type answer struct {
	status int
	header http.Header
	text   string
}

func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.text), v); err != nil {
		t.Fatalf("%d %q: %v", a.status, a.text, err)
	}
}

// send sends a request with headers, as names and values.
func (r *rig) send(ctx context.Context, method, path, body string, headers ...string) answer {
	r.t.Helper()
	q, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return answer{text: err.Error()}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{text: string(text) + " " + err.Error()}
	}
	return answer{res.StatusCode, res.Header, string(text)}
}

func (r *rig) call(key, method, path, body string) answer {
	r.t.Helper()
	return r.send(r.t.Context(), method, path, body, "X-API-KEY", key)
}

// made is the response to a request for a sandbox.
type made struct {
	ID      string `json:"sandboxID"`
	Access  string `json:"envdAccessToken"`
	Traffic string `json:"trafficAccessToken"`
}

func (r *rig) newSandbox(key, body string) (m made) {
	r.t.Helper()
	a := r.call(key, "POST", "/sandboxes", body)
	if a.status != http.StatusCreated {
		r.t.Fatalf("%s: %d %s", body, a.status, a.text)
	}
	a.into(r.t, &m)
	return m
}

// inside sends a request to a sandbox's interpreter.
func (r *rig) inside(ctx context.Context, m made, method, path, body string) answer {
	r.t.Helper()
	return r.send(ctx, method, path, body, headerSandbox, m.ID, headerPort, "49999", headerTraffic, m.Traffic)
}

// TestSandboxes: a sandbox is created, listed, shown, extended and ended; errors have the protocol's format.
func TestSandboxes(t *testing.T) {
	r := newRig(t, nil)
	key := r.key("ci", identity.Agent, "ci")
	m := r.newSandbox(key, `{"templateID":"base","timeout":60,"metadata":{"user":"a b&c","x":"1"},"envVars":{"A":"b"}}`)
	var d struct {
		ID       string            `json:"sandboxID"`
		Template string            `json:"templateID"`
		Started  time.Time         `json:"startedAt"`
		Ends     time.Time         `json:"endAt"`
		State    string            `json:"state"`
		Memory   int               `json:"memoryMB"`
		Metadata map[string]string `json:"metadata"`
	}
	get := func() {
		t.Helper()
		r.call(key, "GET", "/sandboxes/"+m.ID, "").into(t, &d)
	}
	if get(); d.ID != m.ID || d.Template != "base" || d.State != "running" || d.Memory < 1 || d.Metadata["user"] != "a b&c" ||
		d.Ends.Sub(d.Started) != time.Minute {
		t.Errorf("got %+v", d)
	}
	before := d.Ends
	for _, c := range []struct {
		path, body string
		longer     bool
	}{
		{"/connect", `{"timeout":10}`, false}, {"/connect", `{"timeout":600}`, true},
		{"/timeout", `{"timeout":30}`, false},
	} {
		if a := r.call(key, "POST", "/sandboxes/"+m.ID+c.path, c.body); a.status >= 300 {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.status, a.text)
		}
		if get(); d.Ends.After(before) != c.longer {
			t.Errorf("%s %s: ends %s, before %s", c.path, c.body, d.Ends, before)
		}
		before = d.Ends
	}
	for query, want := range map[string]int{
		"": 1, "?state=running": 1, "?state=paused": 0, "?state=paused,running": 1, "?template=base": 1, "?template=other": 0,
		"?metadata=" + url.QueryEscape("user="+url.QueryEscape(url.QueryEscape("a b&c"))): 1, "?metadata=user%3Dother": 0,
		"?metadata=none%3D1": 0,
		"?startedAfter=" + url.QueryEscape(d.Started.Add(time.Second).Format(time.RFC3339Nano)): 0,
	} {
		var list []map[string]any
		if r.call(key, "GET", "/v2/sandboxes"+query, "").into(t, &list); len(list) != want {
			t.Errorf("%s: %d sandboxes, want %d", query, len(list), want)
		}
	}
	var samples []metric
	if r.call(key, "GET", "/sandboxes/"+m.ID+"/metrics", "").into(t, &samples); len(samples) == 0 || samples[0].MemTotal == 0 ||
		samples[0].DiskTotal == 0 {
		t.Errorf("metrics are %v", samples)
	}
	if r.call(key, "GET", "/sandboxes/"+m.ID+"/metrics?start=1&end=2", "").into(t, &samples); len(samples) != 0 {
		t.Errorf("metrics of long ago are %v", samples)
	}
	for range 2 { // the second time it is unknown
		a := r.call(key, "DELETE", "/sandboxes/"+m.ID, "")
		if want := map[bool]int{true: http.StatusNoContent, false: http.StatusNotFound}[d.State == "running"]; a.status != want {
			t.Errorf("%d %s, want %d", a.status, a.text, want)
		}
		d.State = "gone"
	}
	if a := r.inside(t.Context(), m, "GET", "/health", ""); a.status != http.StatusBadGateway {
		t.Errorf("one that is gone: %d %s", a.status, a.text)
	}
}

// TestPages: pages of a list, newest first, neither miss nor repeat an entry.
func TestPages(t *testing.T) {
	r := newRig(t, nil)
	key := r.key("ci", identity.Agent, "ci")
	var want []string
	for range 3 {
		want = append([]string{r.newSandbox(key, `{"templateID":"base","timeout":60}`).ID}, want...)
	}
	next := ""
	for i := range want {
		a := r.call(key, "GET", "/v2/sandboxes?limit=1&nextToken="+next, "")
		var list []detail
		if a.into(t, &list); len(list) != 1 || list[0].SandboxID != want[i] || (a.header.Get("X-Next-Token") == "") != (i == 2) {
			t.Errorf("page %d: %v, then %q", i, list, a.header.Get("X-Next-Token"))
		}
		next = a.header.Get("X-Next-Token")
	}
	for _, query := range []string{"limit=0", "limit=x", "nextToken=x", "startedAfter=x"} {
		if a := r.call(key, "GET", "/v2/sandboxes?"+query, ""); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, a.status, a.text)
		}
	}
}

// TestWalls: nobody reaches a sandbox of a foreign namespace, or any without its own tokens, by guessing.
func TestWalls(t *testing.T) {
	r := newRig(t, nil)
	key, other := r.key("ci", identity.Agent, "ci"), r.key("other", identity.Agent, "other")
	m := r.newSandbox(key, `{"templateID":"base","timeout":60}`)
	for _, c := range [][3]string{{"GET", "", ""}, {"DELETE", "", ""}, {"POST", "/timeout", `{"timeout":1}`},
		{"POST", "/connect", `{"timeout":1}`}, {"GET", "/metrics", ""},
		{"PUT", "/network", `{}`}, {"POST", "/pause", `{}`}} {
		if a := r.call(other, c[0], "/sandboxes/"+m.ID+c[1], c[2]); a.status != http.StatusNotFound {
			t.Errorf("%s %s of another's: %d %s", c[0], c[1], a.status, a.text)
		}
		if a := r.call("e2b_00", c[0], "/sandboxes/"+m.ID+c[1], c[2]); a.status != http.StatusUnauthorized ||
			!strings.Contains(a.text, `"code":401`) {
			t.Errorf("%s %s of nobody: %d %s", c[0], c[1], a.status, a.text)
		}
	}
	var list []detail
	if r.call(other, "GET", "/v2/sandboxes", "").into(t, &list); len(list) != 0 {
		t.Errorf("another sees %v", list)
	}
	for _, c := range []struct {
		id, port string
		headers  []string
		want     int
	}{
		{m.ID, "49999", nil, 403}, {m.ID, "49999", []string{headerAccess, m.Traffic}, 403}, {m.ID, "49999", []string{headerTraffic, other}, 403},
		{m.ID, "49999", []string{headerAccess, m.Access}, 200}, {m.ID, "49999", []string{headerTraffic, m.Traffic}, 200},
		{m.ID, "49983", []string{headerTraffic, m.Traffic}, 401}, {m.ID, "49983", []string{"X-API-KEY", key}, 401},
		{m.ID, "80", []string{headerAccess, m.Access}, 502}, {m.ID, "x", []string{headerAccess, m.Access}, 502},
		{"nothing", "49999", []string{headerAccess, m.Access}, 502},
	} {
		path := map[string]string{"49983": "/envs"}[c.port]
		if path == "" {
			path = "/contexts"
		}
		if a := r.send(t.Context(), "GET", path, "", append([]string{headerSandbox, c.id, headerPort, c.port}, c.headers...)...); a.status != c.want {
			t.Errorf("%s of %s by %v: %d %s, want %d", path, c.id, c.headers, a.status, a.text, c.want)
		}
	}
	if _, err := r.tokens.Revoke(t.Context(), "ci", nil); err != nil {
		t.Fatal(err)
	}
	if a := r.inside(t.Context(), m, "GET", "/contexts", ""); a.status != http.StatusUnauthorized {
		t.Errorf("when the key is revoked: %d %s", a.status, a.text)
	}
}

// TestNobody: requests without a sandbox's token do not use up the owner's limits, and have no long text hashed.
func TestNobody(t *testing.T) {
	r := newRig(t, nil)
	m := r.newSandbox(r.key("ci", identity.Agent, "ci"), `{"templateID":"base","timeout":60}`)
	r.s.cfg.Identities = identity.New(identity.Config{Tokens: r.tokens, Rate: 0.001}) // one request
	for range 5 {
		for _, c := range [][3]string{{"/contexts", "49999", "403"}, {"/envs", "49983", "401"}, {"/files?path=x&signature=v1_x", "49983", "401"}} {
			if a := r.send(t.Context(), "GET", c[0], "", headerSandbox, m.ID, headerPort, c[1]); strconv.Itoa(a.status) != c[2] {
				t.Errorf("%s of nobody: %d %s", c[0], a.status, a.text)
			}
		}
	}
	if a := r.inside(t.Context(), m, "GET", "/contexts", ""); a.status != http.StatusOK {
		t.Errorf("of its owner: %d %s", a.status, a.text)
	}
	if a := r.inside(t.Context(), m, "GET", "/contexts", ""); a.status != http.StatusTooManyRequests {
		t.Errorf("of its owner, too often: %d %s", a.status, a.text)
	}
	for size, want := range map[int]bool{10: true, maxQuery: false} {
		q := httptest.NewRequest("GET", signed(strings.Repeat("p", size), m.Access), nil)
		if b, _, err := r.s.findSigned(q, q.URL.Query()); err != nil || (b != nil) != want {
			t.Errorf("a path of %d bytes: %v, %v", size, b != nil, err)
		}
	}
}

// TestRefused: impossible or unenforceable requests are refused with the reason, and leave no sandbox.
func TestRefused(t *testing.T) {
	r := newRig(t, func(c *pipeline.Config) {
		*pipeline.EnsureSettings[session.Config](c) = session.Config{PerNamespace: 1, Lifetime: time.Hour}
	})
	key := r.key("ci", identity.Agent, "ci")
	all := `"denyOut":["0.0.0.0/0"]`
	for body, want := range map[string]string{
		`{"templateID":"none"}`:                  "404 template",
		`{"templateID":"base","timeout":-1}`:     "400 timeout",
		`{"templateID":"base","timeout":7200}`:   "400 the maximum lifetime of a session",
		`{"templateID":"base","autoPause":true}`: "400 memory can't be kept",
		`{"templateID":"base","autoPause":true,"autoPauseMemory":false,"autoResume":{"enabled":true}}`:                     "400 autoResume is not supported",
		`{"templateID":"base","volumeMounts":[{"name":"a","path":"/a"}]}`:                                                  "400 volumes are not",
		`{"templateID":"base","iam":{"tokens":{"a":{}}}}`:                                                                  "400 workload tokens",
		`{"templateID":"base","envVars":{"A B":"c"}}`:                                                                      "400 an environment variable",
		`{"templateID":"base","network":{"egressProxy":{"address":"a:1"}}}`:                                                "400 egressProxy",
		`{"templateID":"base","network":{"maskRequestHost":"a b"}}`:                                                        "400 mask request host",
		`{"templateID":"base","network":{"allowOut":["api.example.com"]}}`:                                                 "400 allowOut has names",
		`{"templateID":"base","network":{"allowOut":["1.1.1.1"],` + all + `}}`:                                             "400 allowOut: addresses",
		`{"templateID":"base","network":{"denyOut":["example.com"]}}`:                                                      "400 denyOut",
		`{"templateID":"base","network":{"allowOut":["evil.example"],` + all + `}}`:                                        "400 evil.example may not be reached",
		`{"templateID":"base","network":{"rules":{"a.example.org":[{"transform":{"headers":{"Host":"x"}}}]}}}`:             "400 \"Host\" is not a header",
		`{"templateID":"base","network":{"rules":{"a.example.org":[{"transform":{"headers":{"A":"${e2b.secrets.x}"}}}]}}}`: "400 rules",
		`{`: "400 the body",
	} {
		a := r.call(key, "POST", "/sandboxes", body)
		var f fault
		if a.into(t, &f); f.Code != a.status || !strings.HasPrefix(fmt.Sprintf("%d %s", f.Code, f.Message), want) {
			t.Errorf("%s: %d %s, want %s", body, a.status, a.text, want)
		}
	}
	var list []detail
	if r.call(key, "GET", "/v2/sandboxes", "").into(t, &list); len(list) != 0 {
		t.Fatalf("%v is left", list)
	}
	m := r.newSandbox(key, `{"templateID":"mine","timeout":60,"network":{"allowOut":["api.example.com"],`+all+`,"rules":{"api.example.com":[{"transform":{"headers":{"X-Key":"a-secret-value-1234"}}}]}}}`)
	if a := r.call(key, "GET", "/sandboxes/"+m.ID, ""); strings.Contains(a.text, "a-secret-value") || !strings.Contains(a.text, `"allowOut":["api.example.com"]`) {
		t.Errorf("the network is shown as %s", a.text)
	}
	if a := r.call(key, "PUT", "/sandboxes/"+m.ID+"/network", `{"allowOut":["evil.example"],`+all+`}`); a.status != http.StatusBadRequest {
		t.Errorf("a name that policy denies: %d %s", a.status, a.text)
	}
	if a := r.call(key, "PUT", "/sandboxes/"+m.ID+"/network", `{"denyOut":["8.8.8.8"]}`); a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.text)
	}
	for path, want := range map[string]int{
		"DELETE /templates/none": 404, "DELETE /templates/base": 403, "POST /volumes": 501,
		"POST /v3/templates": 501, "GET /secrets": 501, "GET /teams": 501, "GET /nothing": 404, "POST /sandboxes": 429, "GET /templates": 501, "GET /sandboxes/x/logs": 501, "GET /templates/aliases/base": 200,
		"GET /templates/aliases/none": 404, "GET /snapshots": 200,
	} {
		method, path, _ := strings.Cut(path, " ")
		body := ""
		if method == "POST" {
			body = `{"templateID":"base"}`
		}
		if a := r.call(key, method, path, body); a.status != want {
			t.Errorf("%s %s: %d %s, want %d", method, path, a.status, a.text, want)
		}
	}
}

// TestOwns: Owns reports true for the protocol's paths only.
func TestOwns(t *testing.T) {
	for path, want := range map[string]bool{"/sandboxes": true, "/v2/sandboxes/x": true, "/v3/templates": true, "/files": true, "/mcp": false, "/v1/tools/x": false,
		"/sessions": false, "/metrics": false, "/": false, "/v2": false} {
		if got := belongsToE2B(httptest.NewRequest("GET", path, nil)); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	inside := httptest.NewRequest("GET", "/metrics", nil)
	inside.Header.Set(headerSandbox, "x")
	if !belongsToE2B(inside) {
		t.Error("what names a sandbox is not its")
	}
}

// lineOf is a line of the interpreter's answer.
type lineOf struct {
	Type, Text, Name, Value, Traceback, PNG string
	Main                                    bool            `json:"is_main_result"`
	Count                                   int             `json:"execution_count"`
	Chart                                   json.RawMessage `json:"chart"`
}

// summary shortens an answer to the kinds of its lines with their texts.
func summary(t *testing.T, a answer) string {
	t.Helper()
	var words []string
	scan := bufio.NewScanner(bytes.NewReader([]byte(a.text)))
	scan.Buffer(nil, 64<<20)
	for scan.Scan() {
		var l lineOf
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			t.Fatalf("%d %q: %v", a.status, a.text, err)
		}
		switch l.Type {
		case "number_of_executions":
			words = append(words, fmt.Sprint("#", l.Count))
		case "error":
			words = append(words, "error "+l.Name+": "+l.Value)
		case "result":
			words = append(words, fmt.Sprintf("result %v %s", l.Main, l.Text))
		case "keepalive":
		default:
			words = append(words, strings.TrimSpace(l.Type+" "+strings.TrimSpace(l.Text)))
		}
	}
	return strings.Join(words, "; ")
}

// TestExecute: code runs in contexts of each language, with lasting state and variables for a single execution, and
// its results are streamed as lines.
func TestExecute(t *testing.T) {
	r := newRig(t, nil)
	m := r.newSandbox(r.key("ci", identity.Agent, "ci"), `{"templateID":"code-interpreter-v1","timeout":300,"envVars":{"GLOBAL":"sandbox"}}`)
	run := func(body string) string {
		t.Helper()
		return summary(t, r.inside(t.Context(), m, "POST", "/execute", body))
	}
	for _, c := range []struct{ body, want string }{
		{`{"code":"x = 1; x"}`, "#1; result true 1; end_of_execution"},
		{`{"code":"        x += 1\n        print(x)"}`, "#2; stdout 2; end_of_execution"},
		{`{"code":"import os; os.getcwd()"}`, "#3; result true /home/user; end_of_execution"},
		{`{"code":"os.environ.get('GLOBAL'), os.environ.get('ONE')","env_vars":{"GLOBAL":"one","ONE":"1"}}`, "#4; result true ('one', '1'); end_of_execution"},
		{`{"code":"os.environ.get('GLOBAL'), os.environ.get('ONE')"}`, "#5; result true ('sandbox', None); end_of_execution"},
		{`{"code":"import sys; print('e', file=sys.stderr); 1/0"}`, "#6; stderr e; error ZeroDivisionError: division by zero; end_of_execution"},
		{`{"code":"def f(:"}`, "#7; error SyntaxError: "},
		{`{"code":"display('shown'); 'value'"}`, "#8; result false shown; result true value; end_of_execution"},
		{`{"code":"echo $GLOBAL; pwd","language":"bash"}`, "#1; stdout "},
		{`{"code":"process.cwd()","language":"js"}`, "#1; result true /home/user; end_of_execution"},
		{`{"code":"const n: number = 6; n * 7","language":"ts"}`, "#1; result true 42; end_of_execution"},
		{`{"code":"1","language":"java"}`, ""},
		{`{"code":"1","context_id":"none"}`, ""},
		{`{"code":"1","context_id":"python","language":"python"}`, ""},
	} {
		if got := run(strings.ReplaceAll(c.body, "\\\\", "\\")); !strings.HasPrefix(got, c.want) || c.want == "" && strings.Contains(got, "#") {
			t.Errorf("%s: got %q, want %q", c.body, got, c.want)
		}
	}
	a := r.inside(t.Context(), m, "POST", "/contexts", `{"language":"python","cwd":"/tmp"}`)
	var c codeContext
	a.into(t, &c)
	body := func(code string) string {
		b, _ := json.Marshal(map[string]string{"code": code, "context_id": c.ID})
		return string(b)
	}
	if got := run(body("import os; os.getcwd(), 'x' in globals()")); got != "#1; result true ('/tmp', False); end_of_execution" {
		t.Errorf("another context: %q", got)
	}
	run(body("y = 1"))
	if a := r.inside(t.Context(), m, "POST", "/contexts/"+c.ID+"/restart", ""); a.status != http.StatusOK {
		t.Errorf("restart: %d %s", a.status, a.text)
	}
	if got := run(body("'y' in globals()")); got != "#1; result true False; end_of_execution" {
		t.Errorf("after a restart: %q", got)
	}
	var list []codeContext
	if r.inside(t.Context(), m, "GET", "/contexts", "").into(t, &list); len(list) < 3 || list[len(list)-1].ID != c.ID {
		t.Errorf("contexts are %v", list)
	}
	if a := r.inside(t.Context(), m, "DELETE", "/contexts/"+c.ID, ""); a.status != http.StatusNoContent {
		t.Errorf("remove: %d %s", a.status, a.text)
	}
	if a := r.inside(t.Context(), m, "POST", "/execute", body("1")); a.status != http.StatusNotFound {
		t.Errorf("one that was removed: %d %s", a.status, a.text)
	}
}

// TestOwnLanguage: a language of the configuration has contexts, like E2B's.
func TestOwnLanguage(t *testing.T) {
	if _, err := os.Stat("/usr/bin/perl"); err != nil {
		hosttest.SkipMissing(t, "perl", err.Error())
	}
	driver, err := os.ReadFile("../../cli/examples/kernel.pl")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *pipeline.Config) {
		c.Runtimes = []pipeline.Runtime{{Name: "perl", Extensions: []string{".pl"}, Command: []string{"perl"}, Kernel: []string{"perl", "{driver}"}, Driver: string(driver)},
			{Name: "none", Extensions: []string{".none"}, Command: []string{"perl"}}}
	})
	m := r.newSandbox(r.key("ci", identity.Agent, "ci"), `{"templateID":"code-interpreter-v1","timeout":300}`)
	var c struct{ ID, Language string }
	if a := r.inside(t.Context(), m, "POST", "/contexts", `{"language":"Perl"}`); a.status != 200 {
		t.Fatal(a.text)
	} else if a.into(t, &c); c.Language != "perl" {
		t.Errorf("got %s", a.text)
	}
	for _, one := range []struct{ body, want string }{
		{`{"language":"perl","code":"my $x = 6; print $x"}`, "#1; stdout 6; end_of_execution"},
		{`{"language":"perl","code":"$x * 7"}`, "#2; result true 42; end_of_execution"},
		{`{"context_id":"` + c.ID + `","code":"defined $x ? 1 : 0"}`, "#1; result true 0; end_of_execution"},
		{`{"context_id":"` + c.ID + `","code":"die 'oops'"}`, "#2; error die: oops at cell 4 line 1.\n; end_of_execution"},
	} {
		if got := summary(t, r.inside(t.Context(), m, "POST", "/execute", one.body)); got != one.want {
			t.Errorf("%s: got %q, want %q", one.body, got, one.want)
		}
	}
	if a := r.inside(t.Context(), m, "POST", "/contexts", `{"language":"none"}`); a.status < 400 || !strings.Contains(a.text, "runtimes.none.kernel") {
		t.Errorf("without a kernel: %d %s", a.status, a.text)
	}
}

// TestInterrupt: a disconnected client's code is interrupted, but its context remains; the end of a sandbox breaks
// off the answer.
func TestInterrupt(t *testing.T) {
	r := newRig(t, nil)
	key := r.key("ci", identity.Agent, "ci")
	m := r.newSandbox(key, `{"templateID":"base","timeout":300}`)
	begun := func(body string) (ctx context.Context, cancel func(), done chan answer) {
		t.Helper()
		ctx, cancel = context.WithCancel(t.Context())
		done = make(chan answer, 1)
		go func() { done <- r.inside(ctx, m, "POST", "/execute", body) }()
		hosttest.Until(t, "the code runs", func() bool {
			info, err := session.InfoOf(r.p, "ci", strings.ToUpper(m.ID))
			return err == nil && info.State == "busy"
		})
		return ctx, cancel, done
	}
	r.inside(t.Context(), m, "POST", "/execute", `{"code":"kept = 1"}`)
	_, cancel, done := begun(`{"code":"import time; time.sleep(600)"}`)
	cancel()
	<-done
	if got := summary(t, r.inside(t.Context(), m, "POST", "/execute", `{"code":"kept + 1"}`)); !strings.Contains(got, "result true 2") {
		t.Errorf("afterwards: %q", got)
	}
	_, cancel, done = begun(`{"code":"import time; time.sleep(600)"}`)
	defer cancel()
	r.call(key, "DELETE", "/sandboxes/"+m.ID, "")
	if a := <-done; a.status != 0 || strings.Contains(a.text, "end_of_execution") {
		t.Errorf("an answer of a sandbox that ended is whole: %d %q", a.status, a.text)
	}
}

// TestRevokedWatcher: a watcher with fetched events ends with the token of its creator.
func TestRevokedWatcher(t *testing.T) {
	r := newRig(t, nil)
	m := r.newSandbox(r.key("ci", identity.Agent, "ci"), `{"templateID":"base","timeout":300}`)
	a := r.send(t.Context(), "POST", "/filesystem.Filesystem/CreateWatcher", `{"path":"."}`, headerSandbox, m.ID, headerPort, "49983", headerAccess, m.Access)
	if a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.text)
	}
	state := func() string {
		info, err := session.InfoOf(r.p, "ci", strings.ToUpper(m.ID))
		if err != nil {
			t.Fatal(err)
		}
		return info.State
	}
	if state() != "busy" {
		t.Error("nothing watches")
	}
	if _, err := r.tokens.Revoke(t.Context(), "ci", nil); err != nil {
		t.Fatal(err)
	}
	hosttest.Until(t, "the watcher has ended", func() bool { return state() == "idle" })
}

// state returns a sandbox's state in the list; "" is unknown.
func (r *rig) state(key, id string) string {
	r.t.Helper()
	var list []detail
	r.call(key, "GET", "/v2/sandboxes?state=running,paused", "").into(r.t, &list)
	for _, d := range list {
		if d.SandboxID == id {
			return d.State
		}
	}
	return ""
}

// inDaemon sends a request to a sandbox's daemon.
func (r *rig) inDaemon(m made, method, path, body string) answer {
	r.t.Helper()
	return r.send(r.t.Context(), method, path, body, headerSandbox, m.ID, headerPort, "49983", headerAccess, m.Access)
}

// writeFile writes the file f in a sandbox.
func (r *rig) writeFile(m made, content string) {
	r.t.Helper()
	a := r.send(r.t.Context(), "POST", "/files?path=f", content, headerSandbox, m.ID, headerPort, "49983", headerAccess, m.Access, "Content-Type", "application/octet-stream")
	if a.status != http.StatusOK {
		r.t.Errorf("%d %s", a.status, a.text)
	}
}

// TestPause: a paused sandbox runs nothing and keeps its files, and is resumed with the same id and tokens; a request
// to keep its memory is refused.
func TestPause(t *testing.T) {
	r := newRig(t, nil)
	key, other := r.key("ci", identity.Agent, "ci"), r.key("other", identity.Agent, "other")
	m := r.newSandbox(key, `{"templateID":"base","timeout":300,"envVars":{"A":"kept"}}`)
	if a := r.inside(t.Context(), m, "POST", "/execute", `{"code":"x = 1\nopen('f','w').write('of the files'); import os; os.makedirs('d/e'); os.symlink('/usr', 'l'); open('d/e/g','w').write('g'); os.chmod('d/e/g', 0o700)"}`); a.status != 200 || strings.Contains(a.text, "error") {
		t.Fatalf("%d %s", a.status, a.text)
	}
	pause := func(key, body string, want int) {
		t.Helper()
		if a := r.call(key, "POST", "/sandboxes/"+m.ID+"/pause", body); a.status != want {
			t.Errorf("pause %s: %d %s, want %d", body, a.status, a.text, want)
		}
	}
	pause(other, `{"memory":false}`, http.StatusNotFound)
	pause(key, `{"memory":true}`, http.StatusBadRequest) // a started interpreter has memory
	pause(key, ``, http.StatusBadRequest)
	if got := r.state(key, m.ID); got != "running" {
		t.Errorf("refused, it is %q", got)
	}
	pause(key, `{"memory":false}`, http.StatusNoContent)
	pause(key, `{"memory":false}`, http.StatusConflict)
	if got := r.state(key, m.ID); got != "paused" {
		t.Errorf("it is %q", got)
	}
	if a := r.inDaemon(m, "GET", "/health", ""); a.status != http.StatusBadGateway {
		t.Errorf("paused: %d %s", a.status, a.text)
	}
	if a := r.call(key, "POST", "/sandboxes/"+m.ID+"/timeout", `{"timeout":60}`); a.status != http.StatusConflict {
		t.Errorf("a timeout: %d %s", a.status, a.text)
	}
	if a := r.call(other, "POST", "/sandboxes/"+m.ID+"/connect", `{"timeout":60}`); a.status != http.StatusNotFound {
		t.Errorf("another's: %d %s", a.status, a.text)
	}
	if a := r.call(key, "POST", "/sandboxes/"+m.ID+"/connect", `{"timeout":60}`); a.status != http.StatusCreated || !strings.Contains(a.text, m.Access) {
		t.Fatalf("resume: %d %s", a.status, a.text)
	}
	if a := r.inDaemon(m, "GET", "/files?path=f", ""); a.text != "of the files" {
		t.Errorf("its file: %d %q", a.status, a.text)
	}
	if got := summary(t, r.inside(t.Context(), m, "POST", "/execute", `{"code":"'x' in globals(), os.environ['A'] if 'os' in globals() else __import__('os').environ['A'], __import__('os').readlink('l'), oct(__import__('os').stat('d/e/g').st_mode)"}`)); got != "#1; result true (False, 'kept', '/usr', '0o100700'); end_of_execution" {
		t.Errorf("inside: %s", got)
	}
	kinds := map[string]int{}
	for row, err := range r.log.Rows(t.Context(), audit.Filter{Namespace: "ci"}) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[row.Kind]++
	}
	if kinds["session.created"] != 2 || kinds["session.paused"] != 1 || kinds["session.killed"] != 1 {
		t.Errorf("rows are %v", kinds)
	}
	pause(key, `{"memory":false}`, http.StatusNoContent)
	if a := r.call(key, "DELETE", "/sandboxes/"+m.ID, ""); a.status != http.StatusNoContent || r.state(key, m.ID) != "" {
		t.Errorf("end of a paused one: %d %s", a.status, a.text)
	}
	if a := r.call(key, "POST", "/sandboxes/"+m.ID+"/connect", `{}`); a.status != http.StatusNotFound {
		t.Errorf("afterwards: %d %s", a.status, a.text)
	}
	idle := r.newSandbox(key, `{"templateID":"base","timeout":300}`)
	r.writeFile(idle, "x")
	if a := r.call(key, "POST", "/sandboxes/"+idle.ID+"/pause", `{"memory":true}`); a.status != http.StatusNoContent {
		t.Errorf("one in which nothing runs has no memory to lose: %d %s", a.status, a.text)
	}
}

// TestAutoPause: a sandbox with autoPause has its files after its timeout.
func TestAutoPause(t *testing.T) {
	r := newRig(t, nil)
	key := r.key("ci", identity.Agent, "ci")
	m := r.newSandbox(key, `{"templateID":"base","timeout":300,"autoPause":true,"autoPauseMemory":false}`)
	r.writeFile(m, "it stays")
	r.call(key, "POST", "/sandboxes/"+m.ID+"/timeout", `{"timeout":0}`)
	hosttest.Until(t, "it is paused", func() bool { return r.state(key, m.ID) == "paused" })
	if a := r.call(key, "POST", "/sandboxes/"+m.ID+"/connect", `{"timeout":60}`); a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.text)
	}
	if a := r.inDaemon(m, "GET", "/files?path=f", ""); a.text != "it stays" {
		t.Errorf("%d %q", a.status, a.text)
	}
}

// TestPausedBounds: files of paused sandboxes have a common limit, and do not contain secrets.
func TestPausedBounds(t *testing.T) {
	r := newRig(t, func(c *pipeline.Config) { pipeline.EnsureSettings[session.Config](c).PausedBytes = 1 << 20 })
	key := r.key("ci", identity.Agent, "ci")
	m := r.newSandbox(key, `{"templateID":"base","timeout":300}`)
	r.writeFile(m, strings.Repeat("x", 2<<20))
	if a := r.call(key, "POST", "/sandboxes/"+m.ID+"/pause", `{"memory":false}`); a.status != http.StatusBadRequest || !strings.Contains(a.text, "MB left for") || strings.Contains(a.text, "memory") || r.state(key, m.ID) != "running" {
		t.Errorf("%d %s", a.status, a.text)
	}
}

// TestSnapshots: the files of a sandbox without programs are a template for others, as long as the snapshot exists
// and in its namespace only.
func TestSnapshots(t *testing.T) {
	r := newRig(t, func(c *pipeline.Config) { pipeline.EnsureSettings[session.Config](c).PausedBytes = 8 << 20 })
	key, other := r.key("ci", identity.Agent, "ci"), r.key("other", identity.Agent, "other")
	type copied struct {
		ID    string `json:"snapshotID"`
		Names []string
	}
	read := func(m made, want string) {
		t.Helper()
		if a := r.inDaemon(m, "GET", "/files?path=f", ""); a.text != want {
			t.Errorf("read %d %q, want %q", a.status, a.text, want)
		}
	}
	take := func(m made, body string) (c copied) {
		t.Helper()
		r.call(key, "POST", "/sandboxes/"+m.ID+"/snapshots", body).into(t, &c)
		if c.ID == "" {
			t.Fatal("no snapshot")
		}
		return c
	}
	list := func(key, query string) (all []copied) {
		t.Helper()
		r.call(key, "GET", "/snapshots"+query, "").into(t, &all)
		return all
	}
	m := r.newSandbox(key, `{"templateID":"base","timeout":300,"envVars":{"A":"own"}}`)
	r.writeFile(m, "first")
	if a := r.call(other, "POST", "/sandboxes/"+m.ID+"/snapshots", `{}`); a.status != http.StatusNotFound {
		t.Errorf("another's: %d %s", a.status, a.text)
	}
	one := take(m, `{"name":"day:default"}`)
	if !slices.Equal(one.Names, []string{"day"}) {
		t.Errorf("names %v", one.Names)
	}
	r.writeFile(m, "second")
	a, b := r.newSandbox(key, `{"templateID":"`+one.ID+`","timeout":300}`), r.newSandbox(key, `{"templateID":"day","timeout":300}`)
	read(a, "first")
	r.writeFile(a, "of a")
	read(b, "first")
	read(m, "second")
	for _, name := range []string{one.ID, "day"} {
		if a := r.call(other, "POST", "/sandboxes", `{"templateID":"`+name+`"}`); a.status != http.StatusNotFound {
			t.Errorf("another's template: %d %s", a.status, a.text)
		}
		if a := r.call(other, "DELETE", "/templates/"+name, ""); a.status != http.StatusNotFound {
			t.Errorf("another's end: %d %s", a.status, a.text)
		}
	}
	if len(list(other, "")) != 0 || len(list(key, "?name=day")) != 1 || len(list(key, "?name=night")) != 0 || len(list(key, "?sandboxID="+a.ID)) != 0 {
		t.Error("the lists are wrong")
	}
	two, three := take(m, `{"name":"day"}`), take(m, ``)
	if a := r.call(key, "POST", "/sandboxes", `{"templateID":"`+one.ID+`"}`); a.status != http.StatusNotFound {
		t.Errorf("a name that means another one now: %d %s", a.status, a.text)
	}
	page := r.call(key, "GET", "/snapshots?limit=1", "")
	next := page.header.Get("X-Next-Token")
	if rest := list(key, "?limit=1&nextToken="+next); !strings.Contains(page.text, two.ID) || len(rest) != 1 || rest[0].ID != three.ID {
		t.Errorf("pages %s, %v", page.text, rest)
	}
	r.call(key, "DELETE", "/sandboxes/"+m.ID, "")
	read(r.newSandbox(key, `{"templateID":"day:latest","timeout":300}`), "second")
	for _, want := range []int{http.StatusNoContent, http.StatusNotFound} {
		if a := r.call(key, "DELETE", "/templates/"+two.ID, ""); a.status != want {
			t.Errorf("its end: %d %s", a.status, a.text)
		}
	}
	var forks []struct {
		Sandbox made
		Error   *struct{ Message string }
	}
	r.call(key, "POST", "/sandboxes/"+a.ID+"/fork", `{"timeout":300,"count":2}`).into(t, &forks)
	if len(forks) != 2 || len(list(key, "")) != 1 {
		t.Fatalf("forks %+v, snapshots %v", forks, list(key, ""))
	}
	for _, f := range forks {
		if f.Error != nil || f.Sandbox.ID == a.ID || f.Sandbox.Access == a.Access {
			t.Fatalf("%+v", f)
		}
		read(f.Sandbox, "of a")
		r.writeFile(f.Sandbox, "of the fork")
	}
	read(a, "of a")
	r.writeFile(a, strings.Repeat("x", 9<<20))
	for _, path := range []string{"/snapshots", "/fork"} {
		if a := r.call(key, "POST", "/sandboxes/"+a.ID+path, `{}`); a.status != http.StatusBadRequest || !strings.Contains(a.text, "MB") || strings.Contains(a.text, "programs first") {
			t.Errorf("more than is kept: %d %s", a.status, a.text)
		}
		if a := r.call(key, "POST", "/sandboxes/"+b.ID+"/fork", `{"count":101}`); a.status != http.StatusBadRequest {
			t.Errorf("%d %s", a.status, a.text)
		}
		r.inside(t.Context(), b, "POST", "/execute", `{"code":"x = 1"}`)
		if a := r.call(key, "POST", "/sandboxes/"+b.ID+path, `{}`); a.status != http.StatusBadRequest || !strings.Contains(a.text, "end all programs first") {
			t.Errorf("memory: %d %s", a.status, a.text)
		}
	}
}

// TestSnapshotNames: a snapshot's name means the snapshot in the namespace where a sandbox would be created from it.
func TestSnapshotNames(t *testing.T) {
	r := newRig(t, nil)
	theirs, both := r.key("b", identity.Agent, "b"), r.key("both", identity.Agent, "a", "b")
	for _, key := range []string{theirs, both} {
		m := r.newSandbox(key, `{"templateID":"base","timeout":300}`)
		if a := r.call(key, "POST", "/sandboxes/"+m.ID+"/snapshots", `{"name":"day"}`); a.status != http.StatusCreated {
			t.Fatalf("%d %s", a.status, a.text)
		}
	}
	if a := r.call(both, "DELETE", "/templates/day", ""); a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := r.call(theirs, "GET", "/snapshots", ""); !strings.Contains(a.text, "day") {
		t.Errorf("the other namespace has %s", a.text)
	}
}

// TestSnapshotEnds: for sandboxes that start while their snapshot is deleted, the start succeeds or fails as a whole.
func TestSnapshotEnds(t *testing.T) {
	r := newRig(t, nil)
	key := r.key("ci", identity.Agent, "ci")
	m := r.newSandbox(key, `{"templateID":"base","timeout":300}`)
	r.writeFile(m, strings.Repeat("x", 8<<20))
	var c struct {
		ID string `json:"snapshotID"`
	}
	r.call(key, "POST", "/sandboxes/"+m.ID+"/snapshots", `{}`).into(t, &c)
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			a := r.call(key, "POST", "/sandboxes", `{"templateID":"`+c.ID+`","timeout":300}`)
			if a.status == http.StatusNotFound {
				return
			}
			var from made
			if a.into(t, &from); len(r.inDaemon(from, "GET", "/files?path=f", "").text) != 8<<20 {
				t.Error("a part of its files")
			}
		})
	}
	if a := r.call(key, "DELETE", "/templates/"+c.ID, ""); a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.text)
	}
	starts.Wait()
}

// sendToPort sends a request to the host name of a sandbox's port.
func (r *rig) sendToPort(host, method, path string, headers ...string) answer {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	q.Host = host
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(text)}
}

// wantNobody checks that the log has no identity for requests to public ports.
func (r *rig) wantNobody() {
	r.t.Helper()
	found := 0
	for row, err := range r.log.Rows(r.t.Context(), audit.Filter{Contains: []string{`"by":"public port"`}}) {
		if found++; err != nil || strings.Contains(string(row.Data), `"identity"`) {
			r.t.Errorf("%s %s, %v", row.Kind, row.Data, err)
		}
	}
	if found == 0 {
		r.t.Error("no row is of a public port")
	}
}

// TestPublicPorts: a sandbox's port has a host name, which needs a token only if the owner requires one, and which
// reaches nothing else.
func TestPublicPorts(t *testing.T) {
	hosttest.Program(t, "python3")
	r := newRig(t, nil)
	r.s.cfg.Domain = "box.example.com:8443"
	key := r.key("ci", identity.Agent, "ci")
	serve := func(config string) made {
		t.Helper()
		m := r.newSandbox(key, `{"templateID":"base","timeout":300,"network":`+config+`}`)
		code, _ := json.Marshal(map[string]string{"code": `import subprocess; subprocess.Popen(["python3", "-c", '''
import http.server
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Set-Cookie", "sandboxmcp=x; Path=/; Domain=box.example.com; Secure"); self.end_headers()
        self.wfile.write(f"{self.path} {self.headers['Host']} {self.headers.get('E2b-Traffic-Access-Token')}".encode())
    do_OPTIONS = do_GET
    def log_message(self, *a): pass
http.server.HTTPServer(("", 8000), H).serve_forever()'''])`})
		r.inside(t.Context(), m, "POST", "/execute", string(code))
		hosttest.Until(t, "it answers", func() bool {
			return r.send(t.Context(), "GET", "/", "", headerSandbox, m.ID, headerPort, "8000", headerTraffic, m.Traffic).status == 200
		})
		return m
	}
	open, closed := serve(`{"maskRequestHost":"own.example:${PORT}"}`), serve(`{"allowPublicTraffic":false}`)
	name := func(m made, port string) string { return port + "-" + m.ID + ".box.example.com" }
	for _, c := range []struct {
		host    string
		headers []string
		want    int
		text    string
	}{
		{name(open, "8000"), nil, 200, "/healthz own.example:8000 None"}, {name(open, "8000") + ":8443", nil, 200, "/healthz own.example:8000 None"},
		{strings.ToUpper(name(open, "8000")), nil, 200, "/healthz"}, {name(open, "8001"), nil, 502, "nothing listens"},
		{name(closed, "8000"), nil, 403, "token"}, {name(closed, "8000"), []string{headerTraffic, open.Traffic}, 403, "token"},
		{name(closed, "8000"), []string{headerTraffic, closed.Traffic}, 200, "/healthz " + name(closed, "8000") + " None"},
		{"8000-nothing.box.example.com", nil, 502, "The sandbox was not found"},
		{name(open, "49999"), nil, 403, "token"},
	} {
		a := r.sendToPort(c.host, "GET", "/healthz", c.headers...)
		if a.status != c.want || !strings.Contains(a.text, c.text) {
			t.Errorf("%s %v: %d %s, want %d %s", c.host, c.headers, a.status, a.text, c.want, c.text)
		}
		if cookie := a.header.Get("Set-Cookie"); a.status == 200 && (strings.Contains(cookie, "Domain") || !strings.Contains(cookie, "Path=/")) {
			t.Errorf("%s sets the cookie %q", c.host, cookie)
		}
	}
	if a := r.sendToPort(name(open, "49983"), "GET", "/envs"); a.status != http.StatusUnauthorized {
		t.Errorf("the daemon of nobody: %d %s", a.status, a.text)
	}
	if a := r.sendToPort(name(open, "49983"), "GET", "/envs", headerAccess, open.Access, "Origin", "https://app.example"); a.status != http.StatusOK || a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("the daemon: %d %s %v", a.status, a.text, a.header)
	}
	if a := r.sendToPort(name(open, "8000"), "GET", "/sandboxes", "X-API-KEY", key); a.status != 200 || !strings.HasPrefix(a.text, "/sandboxes") {
		t.Errorf("the name of a port leads to the server: %d %s", a.status, a.text)
	}
	r.wantNobody()
	r.call(key, "DELETE", "/sandboxes/"+open.ID, "")
	if a := r.sendToPort(name(open, "8000"), "GET", "/"); a.status != 502 || !strings.Contains(a.text, `"sandboxId":"`+open.ID) {
		t.Errorf("one that has ended: %d %s", a.status, a.text)
	}
}

// TestPortOf: only hosts of the form PORT-ID.domain belong to ports.
func TestPortOf(t *testing.T) {
	for host, want := range map[string]string{
		"8000-abc.box.test": "8000 abc", "8000-abc.box.test:443": "8000 abc", "8000-ABC.box.test.": "8000 abc", "api.box.test": "", "box.test": "", "8000-abc.other.test": "",
		"8000-abc.x.box.test": "", "0-abc.box.test": "", "65536-abc.box.test": "", "-abc.box.test": "", "8000-.box.test": "", "8000.box.test": "", "8000-abc.evilbox.test": "", "": "",
	} {
		got := ""
		if port, id, ok := portOf(host, "box.test"); ok {
			got = fmt.Sprint(port, " ", id)
		}
		if got != want || OfPort(host, "") {
			t.Errorf("%s: got %q, want %q", host, got, want)
		}
	}
}

// TestOpen: pages of any origin may send requests that prove themselves by a header, and none that rely on a
// browser's own credentials.
func TestOpen(t *testing.T) {
	for name, c := range map[string]struct {
		method, path string
		headers      []string
		want         bool
	}{
		"a key":                   {"GET", "/sandboxes", []string{headerKey, "x"}, true},
		"nothing":                 {"GET", "/sandboxes", nil, false},
		"a cookie":                {"GET", "/sandboxes", []string{"Cookie", "sandboxmcp=x"}, false},
		"another door":            {"POST", "/mcp", []string{headerKey, "x"}, false},
		"people's API":            {"GET", "/v1/sessions", []string{"Authorization", "Bearer x"}, false},
		"a sandbox's token":       {"POST", "/process.Process/List", []string{headerSandbox, "x", headerAccess, "y"}, true},
		"a sandbox":               {"POST", "/process.Process/List", []string{headerSandbox, "x"}, false},
		"a signed URL":            {"GET", "/files?signature=v1_x", nil, true},
		"a URL":                   {"GET", "/files?path=x", nil, false},
		"a question":              {"OPTIONS", "/sandboxes", []string{"Access-Control-Request-Method", "POST"}, true},
		"a question to a sandbox": {"OPTIONS", "/execute", []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type,e2b-sandbox-id"}, true},
		"a question elsewhere":    {"OPTIONS", "/mcp", []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization"}, false},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Set(c.headers[i], c.headers[i+1])
		}
		if got := Open(r); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	r := newRig(t, nil)
	ask := r.send(t.Context(), "OPTIONS", "/sandboxes", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
	if h := ask.header; ask.status != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "*") || h.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("%d %v", ask.status, h)
	}
	if a := r.send(t.Context(), "GET", "/sandboxes", "", "Origin", "https://app.example", "X-API-KEY", r.key("ci", identity.Agent, "ci")); a.status != http.StatusOK || a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

// TestFull: a full server and the caller's own limit have different statuses, and both have a Retry-After.
func TestFull(t *testing.T) {
	for want, bounds := range map[int]session.Config{http.StatusServiceUnavailable: {Total: 1}, http.StatusTooManyRequests: {PerIdentity: 1}} {
		r := newRig(t, func(c *pipeline.Config) { *pipeline.EnsureSettings[session.Config](c) = bounds })
		key := r.key("ci", identity.Agent, "ci", "other")
		r.newSandbox(key, `{"templateID":"base","timeout":60}`)
		if a := r.call(key, "POST", "/sandboxes", `{"templateID":"base","timeout":60}`); a.status != want || a.header.Get("Retry-After") == "" {
			t.Errorf("%d %s %v, want %d", a.status, a.text, a.header, want)
		}
		a := r.call(r.key("eve", identity.Agent, "eve"), "POST", "/sandboxes", `{"templateID":"base","timeout":60}`)
		if free := want == http.StatusTooManyRequests; (a.status == http.StatusCreated) != free {
			t.Errorf("another identity: %d %s", a.status, a.text)
		}
	}
}

// A sandbox of a template with a workspace has the host's files at /workspace, and proposes its changes at its end.
func TestWorkspace(t *testing.T) {
	dir, project := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(project, "a.txt"), []byte("one"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *pipeline.Config) {
		*pipeline.EnsureSettings[workspace.Config](c) = workspace.Config{Dir: filepath.Join(dir, "sets"),
			Named: map[string]workspace.Named{"app": {Name: "app", Path: project, Changes: workspace.AskPerson}}}
	})
	key := r.key("ci", identity.Agent, "ci")
	m := r.newSandbox(key, `{"templateID":"project","timeout":300}`)
	if a := r.inDaemon(m, "GET", "/files?path=/workspace/a.txt", ""); a.text != "one" {
		t.Errorf("a.txt: %d %q", a.status, a.text)
	}
	a := r.send(t.Context(), "POST", "/files?path=/workspace/b.txt", "new", headerSandbox, m.ID, headerPort, "49983", headerAccess, m.Access, "Content-Type", "application/octet-stream")
	if a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.text)
	}
	if a := r.call(key, "DELETE", "/sandboxes/"+m.ID, ""); a.status/100 != 2 {
		t.Errorf("%d %s", a.status, a.text)
	}
	sets, err := workspace.List(r.p, changes.Filter{Namespace: "ci"})
	if _, gone := os.Stat(filepath.Join(project, "b.txt")); err != nil || len(sets) != 1 || sets[0].Counts.Added != 1 || gone == nil {
		t.Errorf("%+v, %v; b.txt on the host: %v", sets, err, gone)
	}
}
