package run_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s", r.Host) })

func TestEgressByName(t *testing.T) {
	p, log, _, w := pipelinetest.NewTown(t, nil, nil)
	port := w.Serve(t, "web.test", hello)
	w.Serve(t, "other.test", hello)
	web := fmt.Sprintf("web.test:%d", port)
	_, res, err := pipeline.Do(t.Context(), p, pipelinetest.Python(pipelinetest.Fetch("http://"+web, "http://"+web, "http://other.test",
		"http://127.0.0.9:"+fmt.Sprint(port)), func(q *run.Request) {
		q.Allow, q.Typed = []string{web}, true
	}))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(res.Stdout), "\n")
	if len(lines) != 4 || lines[0] != "hello from "+web || lines[1] != lines[0] || !strings.Contains(lines[2], "Name or service not known") ||
		strings.Contains(lines[3], "hello") {
		t.Errorf("got %q", res.Stdout)
	}
	if wasAsked(w, "other.test") {
		t.Error("a name that is not allowed was looked up outside")
	}
	var allowed, denied egress.Record
	for _, d := range res.Egress {
		switch d.Name {
		case "web.test":
			if d.Port == port {
				allowed = d
			}
		case "other.test":
			denied = d
		}
	}
	if !allowed.Allowed || allowed.Count != 2 || allowed.Sent < 50 || allowed.Received < 50 || allowed.Reason != "allowed by web.test" {
		t.Errorf("allowed: %+v", allowed)
	}
	if denied.Allowed || denied.Count < 1 || !strings.Contains(denied.Reason, "ask for the domain other.test") {
		t.Errorf("denied: %+v", denied)
	}
	all := pipelinetest.Kinds(t, log)
	start, end := slices.Index(all, event.ExecutionStarted), slices.Index(all, event.ExecutionCompleted)
	if a, d := slices.Index(all, event.EgressApproved), slices.Index(all, event.EgressDenied); a < start || a > end || d < start || d > end {
		t.Errorf("rows %v", all)
	}
	for row, err := range log.Rows(t.Context(), audit.Filter{}) {
		if err != nil || row.Kind == event.ExecutionCompleted && !strings.Contains(string(row.Data), "other.test") {
			t.Errorf("%v, %s", err, row.Data)
		}
	}
}

// A run without network learns at once that no name exists, and its host learns which it wanted.
func TestLookupsWithoutNetwork(t *testing.T) {
	p, log, memory, w := pipelinetest.NewTown(t, nil, nil)
	const value = "s3cretvalue"
	if err := memory.Set("default", "TOKEN", []byte(value)); err != nil {
		t.Fatal(err)
	}
	code := []byte("import os, socket\nfor n in ['wanted.test', os.environ['TOKEN'] + '.test']:\n try: print(socket.getaddrinfo(n, 80))\n " +
		"except OSError as e: print(e)")
	_, res, err := pipeline.Do(t.Context(), p, pipelinetest.Python(code, func(q *run.Request) { q.Secrets = []string{"TOKEN"} }))
	if err != nil || res.Ended != backends.EndedOK || res.Stdout != strings.Repeat("[Errno -2] Name or service not known\n", 2) {
		t.Fatalf("%v, ended %s: %s%s", err, res.Ended, res.Stdout, res.Stderr)
	}
	if d := res.Egress; len(d) != 2 || d[0].Name != "wanted.test" || d[0].Allowed || d[0].Ask != "wanted.test" ||
		!strings.HasPrefix(d[0].Reason, "no network is allowed here") {
		t.Errorf("%+v", d)
	}
	rows := 0
	for row, err := range log.Rows(t.Context(), audit.Filter{}) {
		if err != nil || strings.Contains(string(row.Data), value) {
			t.Errorf("%v, %s", err, row.Data)
		}
		if row.Kind == event.EgressDenied {
			rows++
		}
	}
	if output := fmt.Sprint(res.Egress); rows != 2 || strings.Contains(output, value) || wasAsked(w, "wanted.test") {
		t.Errorf("%d rows, %s, looked up outside %q", rows, output, w.Asked)
	}
}

// A decision that can't be recorded lets nothing out.
func TestEgressNeedsTheLog(t *testing.T) {
	p, log, _, w := pipelinetest.NewTown(t, nil, nil)
	var reached bool
	port := w.Serve(t, "web.test", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	web := fmt.Sprintf("web.test:%d", port)
	log.FailAt(event.EgressApproved)
	_, res, err := pipeline.Do(t.Context(), p, pipelinetest.Python(pipelinetest.Fetch("http://"+web),
		func(q *run.Request) { q.Allow, q.Typed = []string{web}, true }))
	if err != nil || reached || len(res.Egress) == 0 || !strings.Contains(fmt.Sprint(res.Egress), "recorded") {
		t.Errorf("%v, reached %v, %+v", err, reached, res.Egress)
	}
}

func TestWhatMayBeNamed(t *testing.T) {
	p, _, _, _ := pipelinetest.NewTown(t, []string{"*.ok.test"}, nil)
	for name, tt := range map[string]struct {
		allow []string
		typed bool
		want  string // "" runs
	}{
		"covered":               {[]string{"a.ok.test"}, false, ""},
		"narrower port":         {[]string{"a.ok.test:443"}, false, ""},
		"another port":          {[]string{"a.ok.test:22"}, false, "may not be reached"},
		"another name":          {[]string{"a.ok.test", "evil.test"}, false, "evil.test may not be reached"},
		"wider":                 {[]string{"*.test.example"}, false, "may not be reached"},
		"typed by a person":     {[]string{"evil.test"}, true, ""},
		"nothing":               {[]string{}, false, ""},
		"a port of the machine": {[]string{"localhost:3000"}, false, "only its operator can allow"},
		"the same, typed":       {[]string{"localhost:3000"}, true, "only its operator can allow"},
		"the machine":           {[]string{"localhost"}, true, "localhost is the sandbox itself"},
		"no pattern":            {[]string{"10.0.0.1"}, true, "addresses can't be allowed"},
		"not even for a person": {[]string{"*"}, true, "would allow every name"},
	} {
		_, _, err := pipeline.Do(t.Context(), p, run.Request{Language: "shell", Code: []byte("true"),
			Reach: run.Reach{Allow: tt.allow, Typed: tt.typed}})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	// Without a network of its own, a sandbox has no way out: refused when asked for, else not there.
	_, _, err := pipeline.Do(t.Context(), p, run.Request{
		Language: "shell", Code: []byte("true"), Where: run.Where{Profile: "landlock"}, Reach: run.Reach{Allow: []string{"a.ok.test"}},
	})
	if err == nil || !strings.Contains(err.Error(), backends.LayerNet) {
		t.Errorf("landlock: %v", err)
	}
	if _, _, err := pipeline.Do(t.Context(), p, run.Request{Language: "shell", Code: []byte("true"), Where: run.Where{Profile: "landlock"}}); err != nil {
		t.Errorf("landlock, nothing asked for: %v", err)
	}
}

// TestLocal: a port of this machine that the operator has opened is one of the sandbox's localhost, both for runs that
// name nothing and for runs that name it; each connection is recorded. No question asks people about other ports, even
// where they are asked about names.
func TestLocal(t *testing.T) {
	s := httptest.NewServer(hello)
	t.Cleanup(s.Close)
	secret := httptest.NewServer(hello)
	t.Cleanup(secret.Close)
	at, other := s.Listener.Addr().(*net.TCPAddr).Port, secret.Listener.Addr().(*net.TCPAddr).Port
	var broker *approval.Broker
	p, log, _, _ := pipelinetest.NewTown(t, []string{"*.ok.test"}, func(c *pipeline.Config) {
		broker = approval.New(approval.Config{Audit: c.Audit})
		c.Approvals, c.Egress.Ask = broker, true
		c.Egress.Policy, c.Egress.Dialer.Local = c.Egress.Policy.WithLocal([]int{at}), []int{at}
	})
	t.Cleanup(func() { broker.Close() })
	urls := []string{fmt.Sprintf("http://localhost:%d", at), fmt.Sprintf("http://127.0.0.1:%d", at), fmt.Sprintf("http://localhost:%d", other), fmt.Sprintf("http://127.0.0.1:%d", other)}
	for _, allow := range [][]string{nil, {fmt.Sprintf("localhost:%d", at)}} {
		_, res, err := pipeline.Do(t.Context(), p, pipelinetest.Python(pipelinetest.Fetch(urls...), func(q *run.Request) { q.Allow = allow }))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(res.Stdout, "hello from") != 2 || strings.Count(res.Stdout, "URLError") != 2 {
			t.Errorf("%v: %s%s", allow, res.Stdout, res.Stderr)
		}
		if !slices.ContainsFunc(res.Egress, func(d egress.Record) bool { return d.Name == "localhost" && d.Port == at && d.Allowed && d.Count == 2 }) {
			t.Errorf("%v: %+v", allow, res.Egress)
		}
		reported := 0
		for row, err := range log.Rows(t.Context(), audit.Filter{}) {
			if err == nil && row.Run == res.ID && row.Kind == event.EgressApproved && strings.Contains(string(row.Data), "a person has opened port") {
				reported++
			}
		}
		if reported == 0 {
			t.Errorf("%v: no row of it", allow)
		}
	}
	for _, allow := range []string{fmt.Sprintf("localhost:%d", other), "localhost", fmt.Sprintf("a.localhost:%d", at), fmt.Sprintf("127.0.0.1:%d", at)} {
		if _, _, err := pipeline.Do(t.Context(), p, run.Request{
			Language: "shell", Code: []byte("true"), Reach: run.Reach{Allow: []string{allow}},
		}); err == nil {
			t.Errorf("an agent has opened %s", allow)
		}
		if err := containment.CheckAskable(p, allow); err == nil {
			t.Errorf("%s may be asked for", allow)
		}
	}
}

func TestAPersonIsAsked(t *testing.T) {
	p, _, w, broker := newAsking(t, true)
	serve80(t, w, "web.test", hello)
	var questions []string
	answer := func(a approval.Answer) func(context.Context, *approval.Pending) {
		return func(ctx context.Context, q *approval.Pending) {
			questions = append(questions, q.Question.What)
			if q := q.Question; len(q.CodeOf) != 64 || q.CodeSHA256 != "" || !strings.Contains(q.CodeHead, "import urllib.request") || q.Client != "agent 1.0" {
				t.Errorf("it does not say whose code asks: %+v", q)
			}
			a.By = approval.CommandLine()
			if err := broker.Answer(ctx, q.Question.ID, a); err != nil {
				t.Error(err)
			}
		}
	}
	run := func(a approval.Answer) pipeline.Outcome {
		t.Helper()
		_, res, err := pipeline.Do(t.Context(), p, pipelinetest.Python(pipelinetest.Fetch("http://web.test", "http://web.test"), func(q *run.Request) { q.Ask, q.Client = answer(a), "agent 1.0" }))
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	res := run(approval.Answer{Reason: "not today"})
	if strings.Contains(res.Stdout, "hello") || len(questions) != 1 || !strings.Contains(fmt.Sprint(res.Egress), "not today") || wasAsked(w, "web.test") {
		t.Errorf("denied: %q, %v, %+v", res.Stdout, questions, res.Egress)
	}
}

func TestApprovalOfARunIsThatRuns(t *testing.T) {
	p, _, w, broker := newAsking(t, true)
	serve80(t, w, "web.test", hello)
	asked := 0
	run := func(scope string) pipeline.Outcome {
		t.Helper()
		_, res, err := pipeline.Do(t.Context(), p, pipelinetest.Python(pipelinetest.Fetch("http://web.test", "http://web.test"), func(q *run.Request) {
			q.Ask = func(ctx context.Context, pending *approval.Pending) {
				asked++
				if err := broker.Answer(ctx, pending.Question.ID, approval.Answer{Allowed: true, By: approval.CommandLine(), Scope: scope}); err != nil {
					t.Error(err)
				}
			}
		}))
		if err != nil || strings.Count(res.Stdout, "hello from web.test") != 2 {
			t.Errorf("%v, %q, %+v", err, res.Stdout, res.Egress)
		}
		return res
	}
	run(approval.ScopeRun)
	if asked != 1 {
		t.Errorf("asked %d times, want once for both connections", asked)
	}
	run(approval.ScopeTime)
	run(approval.ScopeTime)
	if asked != 2 {
		t.Errorf("asked %d times, want twice: the first approval was for its run alone, the second for a time", asked)
	}
}

func TestApprovalReachesASession(t *testing.T) {
	p, _, w, broker := newAsking(t, false)
	serve80(t, w, "web.test", hello)
	s := pipelinetest.Open(t, p, session.New{})
	if res := pipelinetest.Cell(t, p, s.ID, string(pipelinetest.Fetch("http://web.test")), nil); strings.Contains(res.Stdout, "hello") || len(res.Egress) == 0 {
		t.Fatalf("before: %q %+v", res.Stdout, res.Egress)
	}
	pending, err := broker.Open(t.Context(), approval.Question{Kind: approval.Egress, What: "web.test", Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Answer(t.Context(), pending.Question.ID, approval.Answer{Allowed: true, By: approval.CommandLine()}); err != nil {
		t.Fatal(err)
	}
	res := pipelinetest.Cell(t, p, s.ID, string(pipelinetest.Fetch("http://web.test")), nil)
	if !strings.Contains(res.Stdout, "hello from web.test") || len(res.Egress) != 1 || !strings.Contains(res.Egress[0].Reason, "approved") {
		t.Errorf("approved: %q %+v", res.Stdout, res.Egress)
	}
	// A list is these only, whatever people have approved.
	if res := pipelinetest.Cell(t, p, s.ID, string(pipelinetest.Fetch("http://web.test")), func(q *run.Request) { q.Allow = []string{"web.test"} }); !strings.Contains(res.Stdout, "hello") {
		t.Errorf("named: %q", res.Stdout)
	}
	_, _, err = pipeline.Do(t.Context(), p, run.Request{Where: run.Where{Session: s.ID}, Code: []byte("1"), Reach: run.Reach{Allow: []string{"other.test"}}})
	if err == nil || !strings.Contains(err.Error(), "other.test may not be reached") {
		t.Errorf("another name: %v", err)
	}
	_, _, err = pipeline.Do(t.Context(), p, run.Request{Where: run.Where{Session: s.ID}, Code: []byte("1"), Reach: run.Reach{Allow: []string{"web.test:22"}}})
	if err == nil || !strings.Contains(err.Error(), "may not be reached") {
		t.Errorf("another port: %v", err)
	}
	// The decision of the cell before is not reported again, and one cell may have less access.
	if res := pipelinetest.Cell(t, p, s.ID, string(pipelinetest.Fetch("http://web.test")), func(q *run.Request) { q.Allow = []string{} }); strings.Contains(res.Stdout, "hello") {
		t.Errorf("a cell that may reach nothing: %q", res.Stdout)
	}
	if err := broker.Revoke(t.Context(), pending.Question.ID, approval.Answer{By: approval.CommandLine()}); err != nil {
		t.Fatal(err)
	}
	if res := pipelinetest.Cell(t, p, s.ID, string(pipelinetest.Fetch("http://web.test")), nil); strings.Contains(res.Stdout, "hello") {
		t.Errorf("revoked: %q", res.Stdout)
	}
}

// boundStore has one secret that is bound.
type boundStore struct {
	value string
	to    vault.Binding
}

func (s boundStore) Get(_ context.Context, _, key string) ([]byte, vault.Binding, error) {
	if key != "API_KEY" {
		return nil, vault.Binding{}, vault.ErrNotFound
	}
	return []byte(s.value), s.to, nil
}

// Without a way to its name, a bound secret is of no use, and the result says so.
func TestBoundSecretWithoutItsHost(t *testing.T) {
	const api = "example.com:443"
	p, _, _, _ := pipelinetest.NewTown(t, []string{api}, func(c *pipeline.Config) {
		c.Vault = vault.New(boundStore{"correct-horse-battery", vault.Binding{Hosts: []string{api}, Require: true}})
	})
	_, res, err := pipeline.Do(t.Context(), p, run.Request{
		Language: "shell", Code: []byte("true"), Reach: run.Reach{Secrets: []string{"API_KEY"}, Allow: []string{}},
	})
	if err != nil || !strings.Contains(fmt.Sprint(res.Warnings), "API_KEY is sent only to "+api) {
		t.Errorf("%v, warnings %q", err, res.Warnings)
	}
}

// A cell that names less than its session has the connections ended that earlier cells have left.
func TestCellEndsWhatItMayNotHave(t *testing.T) {
	p, _, _, w := pipelinetest.NewTown(t, nil, nil)
	port := w.Serve(t, "web.test", hello)
	web := fmt.Sprintf("web.test:%d", port)
	policy, err := egress.NewPolicy([]string{web}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Config.Egress.Policy = policy
	s := pipelinetest.Open(t, p, session.New{})
	const request = "c.send(b'HEAD / HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n'); print(c.recv(1000)[:15])"
	res := pipelinetest.Cell(t, p, s.ID, fmt.Sprintf("import socket; c = socket.create_connection(('web.test', %d)); %s", port, request), nil)
	if !strings.Contains(res.Stdout, "200 OK") {
		t.Fatalf("%q %+v", res.Stdout, res.Egress)
	}
	if res := pipelinetest.Cell(t, p, s.ID, request, func(q *run.Request) { q.Allow = []string{web} }); !strings.Contains(res.Stdout, "200 OK") {
		t.Errorf("named: %q %+v", res.Stdout, res.Error)
	}
	if res := pipelinetest.Cell(t, p, s.ID, request, func(q *run.Request) { q.Allow = []string{} }); res.Error == nil || strings.Contains(res.Stdout, "OK") {
		t.Errorf("nothing named: %q", res.Stdout)
	}
}

func TestApprovalOfACode(t *testing.T) {
	p, _, w, broker := newAsking(t, false)
	serve80(t, w, "web.test", hello)
	code := pipelinetest.Fetch("http://web.test")
	pending, err := broker.Open(t.Context(), approval.Question{Kind: approval.Egress, What: "web.test", Namespace: "default", CodeSHA256: pipeline.Hash(code)})
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Answer(t.Context(), pending.Question.ID, approval.Answer{Allowed: true, By: approval.CommandLine()}); err != nil {
		t.Fatal(err)
	}
	_, res, err := pipeline.Do(t.Context(), p, pipelinetest.Python(code, nil))
	if err != nil || !strings.Contains(res.Stdout, "hello from web.test") {
		t.Errorf("the code: %v %q %+v", err, res.Stdout, res.Egress)
	}
	_, res, err = pipeline.Do(t.Context(), p, pipelinetest.Python(append(code, '\n'), nil))
	if err != nil || strings.Contains(res.Stdout, "hello") {
		t.Errorf("other code: %v %q", err, res.Stdout)
	}
}

func TestAskFor(t *testing.T) {
	denying, err := egress.NewPolicy(nil, []string{"*.corp.test", "db.test:5432"})
	if err != nil {
		t.Fatal(err)
	}
	p := pipeline.New(pipeline.Config{Egress: pipeline.Egress{Policy: denying}})
	defer p.Close()
	for domain, want := range map[string]bool{
		"web.test": true, "db.test": true, "db.test:22": true, "*.web.test": true, "*.db.test:5432": true,
		"a.corp.test": false, "a.corp.test:22": false, "*.a.corp.test": false, "*.corp.test": false, "db.test:5432": false, "10.0.0.1": false,
	} {
		if err := containment.CheckAskable(p, domain); (err == nil) != want {
			t.Errorf("%s: %v", domain, err)
		}
	}
}
