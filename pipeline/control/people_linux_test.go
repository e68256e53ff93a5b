package control

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// people is an API before real sandboxes, to which requests come over HTTP.
type people struct {
	*running
	url  string
	mine string // a session of team
	asks *approval.Pending
	run  string // a run of team
	dir  string // a workspace
	set  string // a change set of team for it
}

const who = "Test-Identity"

func overHTTP(t *testing.T) people {
	r := serveRuns(t)
	b, _ := broker(t)
	bus := event.NewBus()
	store, err := results.Open(results.Config{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	c := &r.listener.api.c
	c.Approvals, c.Events, c.Results = b, bus, store
	c.Settings = func() []Setting { return []Setting{{Key: "sqlite_path", Value: "audit.db"}} }
	c.Doctor = func(context.Context) ([]Finding, error) { return []Finding{{Kind: "state", Detail: "audit.db"}}, nil }
	c.Disk = func() (Disk, error) { return Disk{}, nil }
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		ctx := q.Context()
		switch q.Header.Get(who) {
		case "agent":
			ctx = identity.With(ctx, identity.Identity{Name: "a", Source: identity.FromToken, Kind: identity.Agent,
				Namespaces: identity.Only("team")})
		case "all":
			ctx = identity.With(ctx, identity.Identity{Name: "boss", Source: identity.FromToken, Kind: identity.Person, Namespaces: identity.All()})
		case "other":
			ctx = identity.With(ctx, identity.Identity{Name: "other", Source: identity.FromToken, Kind: identity.Person,
				Namespaces: identity.Only("other")})
		}
		r.listener.api.ServeHTTP(w, q.WithContext(ctx))
	}))
	t.Cleanup(s.Close)
	p := people{running: r, url: s.URL, mine: r.create("shell").ID, asks: openQuestion(t, b, "a.example")}
	res, _ := r.exec(p.mine, "echo of-team > secret.example.txt")
	p.run, r.listener.api.c.Records = res.ID, r.log
	c.Keys, err = signer.OpenKeys(t.TempDir(), nil)
	must(t, err)
	bus.Publish(event.Event{Name: event.EgressDenied, Namespace: "team", Data: map[string]any{"name": "secret.example"}})
	return p
}

// propose makes the change set.
func (p *people) propose() {
	p.dir = p.t.TempDir()
	must(p.t, os.WriteFile(filepath.Join(p.dir, "a.txt"), []byte("one\n"), 0o644))
	_, out, err := pipeline.Do(p.t.Context(), p.pipeline, run.Request{Namespace: "team", Language: "shell",
		Code:      []byte("echo two >>a.txt; echo new >secret.example"),
		HostFiles: run.HostFiles{Workspace: backends.Mount{Host: p.dir, Propose: true}}})
	must(p.t, err)
	p.set = out.Changes.ID
}

// sends sends one request.
func (p people) sends(t *testing.T, as, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
	must(t, err)
	req.Header.Set(who, as)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(text)
}

// requests has one request of each operation, about objects of the namespace team.
func (p people) requests() map[string][3]string {
	id, question := p.mine, p.asks.Question.ID
	return map[string][3]string{
		getServer.Pattern: {"/v1/server"}, GetStats.Pattern: {"/v1/stats"}, GetQueue.Pattern: {"/v1/queue"},
		ListJobs.Pattern:      {"/v1/jobs?namespace=team"},
		GetLimits.Pattern:     {"/v1/limits?namespace=team", "", "403"},
		SetLimits.Pattern:     {"/v1/limits", `{"namespace":"team","limits":{"max_ram_mb":64}}`, "403"},
		listApprovals.Pattern: {"/v1/approvals"}, listGrants.Pattern: {"/v1/grants"},
		OpenApproval.Pattern:   {"/v1/approvals", `{"kind":"egress","what":"b.example","namespace":"team"}`, "403"},
		AnswerApproval.Pattern: {"/v1/approvals/" + question, `{"allow":true}`, "404"},
		GiveGrant.Pattern:      {"/v1/grants", `{"kind":"egress","what":"b.example","namespace":"team"}`, "403"},
		ListSessions.Pattern:   {"/v1/sessions?namespace=team"}, ListUsage.Pattern: {"/v1/usage"},
		CreateSession.Pattern:  {"/v1/sessions", `{"language":"shell","namespace":"team"}`, "403"},
		InspectSession.Pattern: {"/v1/sessions/" + id + "/state", "", "404"}, PutValue.Pattern: {"/v1/sessions/" + id + "/bridge",
			`{"key":"x","value":1}`, "404"},
		CopyFile.Pattern: {"/v1/sessions/" + id + "/copy", `{"source":"/etc/hostname","destination":"h"}`, "404"},
		putFiles.Pattern: {"/v1/sessions/" + id + "/files?path=x", "", "415"}, getFiles.Pattern: {"/v1/sessions/" + id + "/files", "", "404"},
		CopyExport.Pattern:    {"/v1/sessions/" + id + "/exports", `{"from_session":"` + id + `","path":"x"}`, "404"},
		runCell.Pattern:       {"/v1/sessions/" + id + "/cells", `{"code":"echo it-ran"}`, "404"},
		InterruptCell.Pattern: {"/v1/cells/01K9ZB5W7Q3M8Y2D4F6H8J0K2M/interrupt", "", "404"},
		ListRunning.Pattern:   {"/v1/running"}, watchRun.Pattern: {"/v1/running/01K9ZB5W7Q3M8Y2D4F6H8J0K2M/output", "", "404"},
		ShowCode.Pattern:     {"/v1/running/01K9ZB5W7Q3M8Y2D4F6H8J0K2M/code", "", "404"},
		InterruptRun.Pattern: {"/v1/running/01K9ZB5W7Q3M8Y2D4F6H8J0K2M/interrupt", `{"kill":true}`, "404"},
		ReviewCode.Pattern:   {"/v1/review", `{"language":"shell","code":"rm -rf /"}`},
		SearchLog.Pattern:    {"/v1/log"}, GetStory.Pattern: {"/v1/log/" + p.run, "", "404"},
		GetEvidence.Pattern: {"/v1/log/" + p.run + "/evidence", "", "404"},
		ListStored.Pattern:  {"/v1/stored"}, ReadStored.Pattern: {"/v1/stored/" + p.run + "?name=stdout", "", "404"},
		ListChanges.Pattern: {"/v1/changes"}, GetChanges.Pattern: {"/v1/changes/" + p.set, "", "404"},
		DiffChanges.Pattern:  {"/v1/changes/" + p.set + "/diff", "{}", "404"},
		ApplyChanges.Pattern: {"/v1/changes/" + p.set + "/apply", "{}", "404"}, UndoChanges.Pattern: {"/v1/changes/" + p.set + "/undo", "",
			"404"}, DropChanges.Pattern: {"/v1/changes/" + p.set, "", "404"},
		GetPolicy.Pattern: {"/v1/policy"}, ListSecrets.Pattern: {"/v1/secrets?namespace=team", "", "403"}, RunDoctor.Pattern: {"/v1/doctor"},
		GetDisk.Pattern:    {"/v1/disk"},
		GetFigures.Pattern: {"/v1/figures"}, OpenPage.Pattern: {"/v1/page", "{}"},
		streamEvents.Pattern: {"/v1/events?follow=false"}, EndSession.Pattern: {"/v1/sessions/" + id, "", "404"},
	}
}

// TestWhoReachesWhat: nobody and agents get nothing that people have, and a person of other namespaces learns nothing
// of this one, by no operation.
func TestWhoReachesWhat(t *testing.T) {
	p := overHTTP(t)
	p.propose()
	all := p.requests()
	for _, o := range Operations() {
		one, ok := all[o.Route]
		if !ok {
			t.Errorf("%s is not tried", o.Name)
		}
		method, _, _ := strings.Cut(o.Route, " ")
		for _, as := range []string{"", "agent"} {
			if status, text := p.sends(t, as, method, one[0], one[1]); status != http.StatusForbidden {
				t.Errorf("%s as %q: got %d %s", o.Name, as, status, text)
			}
		}
		want := 200
		if one[2] != "" {
			fmt.Sscan(one[2], &want)
		}
		status, text := p.sends(t, "other", method, one[0], one[1])
		if status != want {
			t.Errorf("%s of another namespace: got %d %s, want %d", o.Name, status, text, want)
		}
		for _, name := range []string{p.mine, "a.example", "secret.example", `"team"`, "it-ran", "audit.db"} {
			if sent := one[0] + one[1]; strings.Contains(text, name) && !strings.Contains(sent, strings.Trim(name, `"`)) {
				t.Errorf("%s of another namespace learns %q: %s", o.Name, name, text)
			}
		}
	}
	if pending := p.asks; func() bool {
		_, text := p.sends(t, "all", "GET", "/v1/approvals", "")
		return !strings.Contains(text, pending.Question.ID)
	}() {
		t.Error("the question is answered")
	}
	if s, err := Call(t.Context(), p.Client, ListSessions, InNamespace{}); err != nil || len(s) != 1 || s[0].State == "dead" {
		t.Errorf("got %+v, %v", s, err)
	}
}

// TestPeopleOverHTTP: a person of all namespaces can do over HTTP all that the command line can, and the log names that
// person.
func TestPeopleOverHTTP(t *testing.T) {
	p := overHTTP(t)
	status, text := p.sends(t, "all", "POST", "/v1/sessions/"+p.mine[:22]+"/cells", `{"code":"echo it-ran"}`)
	if status != 200 || !strings.Contains(text, `{"stdout":"it-ran\n"}`) || !strings.Contains(text, `"exit_code":0`) {
		t.Errorf("got %d %s", status, text)
	}
	status, text = p.sends(t, "all", "POST", "/v1/sessions/"+p.mine+"/cells", `{"code":"echo it-ran"}`, "Accept", "text/event-stream")
	if status != 200 || !strings.Contains(text, "data: {\"stdout\":\"it-ran\\n\"}\n\n") {
		t.Errorf("as server-sent events: got %d %s", status, text)
	}
	if status, text := p.sends(t, "all", "POST", "/v1/sessions/"+p.mine+"/cells", `{"code":"echo x > f","artifacts":"`+t.TempDir()+`"}`); status != http.StatusForbidden {
		t.Errorf("a directory of the server's machine: got %d %s", status, text)
	}
	status, text = p.sends(t, "all", "POST", "/v1/approvals/"+p.asks.Question.ID, `{"allow":true}`)
	if a, err := p.asks.Wait(t.Context()); status != 200 || err != nil || a.By.String() != "http" || a.User != "token:boss" {
		t.Errorf("got %d %s: %+v, %v", status, text, a, err)
	}
	if status, text := p.sends(t, "all", "POST", "/v1/approvals/"+p.asks.Question.ID+"?allow=true", ""); status != http.StatusBadRequest {
		t.Errorf("an answer in a query: got %d %s", status, text)
	}
	for _, query := range []string{"namespace=%zz", "namespace=other;x"} { // which is not that of all namespaces
		if status, text := p.sends(t, "all", "GET", "/v1/sessions?"+query, ""); status != http.StatusBadRequest {
			t.Errorf("%s: got %d %s", query, status, text)
		}
	}
	for _, limit := range []string{`"max_ram_mb":17592186044417`, `"max_disk_mb":17592186044416`, `"timeout_seconds":1e300`} { // more than 64 bits have bytes or ns for
		if status, text := p.sends(t, "all", "POST", "/v1/sessions", `{"language":"shell","limits":{`+limit+`}}`); status != http.StatusBadRequest {
			t.Errorf("%s: got %d %s", limit, status, text)
		}
	}
	if status, text := p.sends(t, "all", "DELETE", "/v1/sessions/"+p.mine, ""); status != 200 || !strings.Contains(text, `"ended_identity":"token:boss"`) {
		t.Errorf("got %d %s", status, text)
	}
}

// TestChangesOverHTTP: a person reads a change set, applies a part of it, undoes that, and drops it; the log names the
// person.
func TestChangesOverHTTP(t *testing.T) {
	p := overHTTP(t)
	p.propose()
	content := func() string {
		b, _ := os.ReadFile(filepath.Join(p.dir, "a.txt"))
		return string(b)
	}
	for _, step := range []struct{ method, path, body, want, content string }{
		{"GET", "?namespace=team&status=proposed", "", `"changed":1,"added":1`, "one\n"},
		{"GET", "/" + p.set, "", `"path":"a.txt"`, "one\n"},
		{"POST", "/" + p.set + "/diff", `{"paths":["a.txt"]}`, `+two`, "one\n"},
		{"POST", "/" + p.set + "/apply", `{"paths":["a.txt"]}`, `"paths":["a.txt"]`, "one\ntwo\n"},
		{"POST", "/" + p.set + "/undo", "", `"paths":["a.txt"]`, "one\n"},
		{"DELETE", "/" + p.set, "", `"status":"dropped"`, "one\n"},
		{"POST", "/" + p.set + "/apply", "{}", "dropped", "one\n"},
	} {
		if _, text := p.sends(t, "all", step.method, "/v1/changes"+step.path, step.body); !strings.Contains(text, step.want) || content() != step.content {
			t.Errorf("%s %s: got %s, want %s; a.txt is %q", step.method, step.path, text, step.want, content())
		}
	}
	if _, err := os.Stat(filepath.Join(p.dir, "secret.example")); err == nil {
		t.Error("a path was applied that was not named")
	}
	_, text := p.sends(t, "all", "GET", "/v1/log?kind=changes.applied", "")
	if !strings.Contains(text, "token:boss") {
		t.Errorf("the log does not say who applied it: %s", text)
	}
}

// TestRootAppliesChanges: where only root approves, nobody else has the server write to the host by a change set.
func TestRootAppliesChanges(t *testing.T) {
	p := overHTTP(t)
	p.propose()
	p.listener.api.c.Approvals = approval.New(approval.Config{Audit: p.log, Root: true})
	for _, how := range []string{"apply", "undo"} {
		if status, text := p.sends(t, "all", "POST", "/v1/changes/"+p.set+"/"+how, "{}"); status != http.StatusForbidden {
			t.Errorf("%s: got %d %s", how, status, text)
		}
	}
}

// TestOpenAPI: the document has each operation, with schemas that are some.
func TestOpenAPI(t *testing.T) {
	p := overHTTP(t)
	_, text := p.sends(t, "all", "GET", "/v1/openapi.json", "")
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID string
			Description string
			Parameters  []struct{ Name, In string }
			RequestBody struct {
				Content map[string]struct{ Schema any }
			}
			Responses map[string]struct {
				Content map[string]struct{ Schema any }
			}
		}
	}
	must(t, json.Unmarshal([]byte(text), &doc))
	compiles := func(name string, schema any) {
		c := jsonschema.NewCompiler()
		c.DefaultDraft(jsonschema.Draft2020)
		must(t, c.AddResource(name, schema))
		if _, err := c.Compile(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var ids []string
	for _, o := range Operations() {
		method, path, _ := strings.Cut(o.Route, " ")
		got, ok := doc.Paths[path][strings.ToLower(method)]
		if ids = append(ids, got.OperationID); !ok || got.OperationID != o.Name || len(got.Description) < 20 {
			t.Errorf("%s: got %+v", o.Route, got)
		}
		for kind, c := range got.Responses["200"].Content {
			compiles(o.Name+kind, c.Schema)
		}
		for _, c := range got.RequestBody.Content {
			compiles(o.Name+"arguments", c.Schema)
		}
		if strings.Contains(path, "{id}") && (len(got.Parameters) == 0 || got.Parameters[0].Name != "id" || got.Parameters[0].In != "path") {
			t.Errorf("%s: got the parameters %+v", o.Name, got.Parameters)
		}
	}
	if slices.Sort(ids); doc.OpenAPI != "3.1.0" || len(slices.Compact(ids)) != len(Operations()) {
		t.Errorf("got %s, %v", doc.OpenAPI, ids)
	}
}

// begins sends the head of a request, and returns the server's answer to it. If the server asks for the body, begins
// sends that.
func (p people) begins(t *testing.T, path string, size int, body string) (string, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: server\r\n%s: all\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", path, who, size)
	must(t, err)
	answers := bufio.NewReader(conn)
	status, err := answers.ReadString('\n')
	must(t, err)
	_, _ = io.WriteString(conn, body) // whether it is read is what the caller wants to know
	return strings.TrimSpace(status), answers
}

// TestLargeRequests: large bodies that are awaited hold nobody up, and a body is as large as its route takes.
func TestLargeRequests(t *testing.T) {
	p := overHTTP(t)
	to := "/v1/sessions/" + p.mine
	for range 9 { // what was promised holds nothing
		if status, _ := p.begins(t, to+"/bridge", maxValueBody, "{"); status != "HTTP/1.1 100 Continue" {
			t.Errorf("got %s", status)
		}
	}
	if status, text := p.sends(t, "all", "POST", to+"/cells", `{"code":"echo it-ran"}`); status != 200 || !strings.Contains(text, "it-ran") {
		t.Errorf("a small one: got %d %s", status, text)
	}
	_, answers := p.begins(t, "/v1/sessions", 2<<20, strings.Repeat(" ", 1<<20))
	_, _ = answers.ReadString('\n')
	if answer, err := http.ReadResponse(answers, nil); err != nil || answer.StatusCode != http.StatusBadRequest { // before the rest has come
		t.Errorf("a body that is too large for its route: got %+v, %v", answer, err)
	}
}

// TestRoomForTheMachine: clients over HTTP leave some streams to those at the server's own socket.
func TestRoomForTheMachine(t *testing.T) {
	p := overHTTP(t)
	for {
		req, err := http.NewRequestWithContext(t.Context(), "GET", p.url+"/v1/events", nil)
		must(t, err)
		req.Header.Set(who, "all")
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			break
		}
	}
	for _, err := range p.Client.Events(t.Context(), EventQuery{Follow: true}) {
		must(t, err)
		break
	}
}
