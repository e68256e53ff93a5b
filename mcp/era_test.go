package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
)

const (
	modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s,` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`
	knowsTasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

// modern sends a call of the 2026-07-28 protocol, with params without their braces.
func (p *peer) modern(method, capabilities, params string) reply {
	p.t.Helper()
	if params != "" {
		params += ","
	}
	return p.call(method, `{`+params+fmt.Sprintf(modern, capabilities)+`}`)
}

func (m reply) code() int {
	if m.Error == nil {
		return 0
	}
	return m.Error.Code
}

func TestStatelessProtocol(t *testing.T) {
	p := newRig(t, nil).connect()
	if m := p.call("tools/list", `{}`); m.code() != -32600 {
		t.Errorf("before anything else: got %s", m.line)
	}
	const version, capabilities = `"io.modelcontextprotocol/protocolVersion":`, `"io.modelcontextprotocol/clientCapabilities":`
	for _, test := range []struct {
		name, method, params string
		code                 int
		want                 string
	}{
		{"no _meta", "server/discover", `{}`, -32602, version[:20]},
		{"an empty _meta", "server/discover", `{"_meta":{}}`, -32602, version[:20]},
		{"no version", "server/discover", `{"_meta":{` + capabilities + `{}}}`, -32602, version[:20]},
		{"no capabilities", "server/discover", `{"_meta":{` + version + `"2026-07-28"}}`, -32602, capabilities[:20]},
		{"no capabilities", "tasks/get", `{"taskId":"x","_meta":{` + version + `"2026-07-28"}}`, -32602, capabilities[:20]},
		{"capabilities as list", "tools/list", `{"_meta":{` + version + `"2026-07-28",` + capabilities + `[]}}`, -32602, capabilities[:20]},
		{"version as number", "tools/list", `{"_meta":{` + version + `20260728,` + capabilities + `{}}}`, -32602, version[:20]},
		{"an older version", "tools/list", `{"_meta":{` + version + `"2025-11-25",` + capabilities + `{}}}`, -32602, "initialize"},
		{"a version of the past", "tools/list", `{"_meta":{` + version + `"1900-01-01",` + capabilities + `{}}}`, -32022,
			`"requested":"1900-01-01"`},
		{"a version of the future", "server/discover", `{"_meta":{` + version + `"v999.0.0",` + capabilities + `{}}}`, -32022,
			`"supported":["2026-07-28",`},
		{"no name of the client", "server/discover", `{"_meta":{` + version + `"2026-07-28",` + capabilities + `{}}}`, 0,
			`"supportedVersions":["2026-07-28",`},
		{"a request without _meta, after those with it", "tools/list", `{}`, -32602, "initialize"},
		{"a call without _meta, after those with it", "tools/call", `{"name":"sandbox_stats"}`, -32602, "initialize"},
		{"ping without _meta", "ping", `{}`, 0, "{}"},
	} {
		if m := p.call(test.method, test.params); m.code() != test.code || !strings.Contains(m.line, test.want) {
			t.Errorf("%s: got %s, want %d and %s", test.name, m.line, test.code, test.want)
		}
	}
	for _, method := range []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/list",
		"tasks/result", "no/such"} {
		if m := p.modern(method, `{}`, `"uri":"x","level":"info","taskId":"x"`); m.code() != -32601 {
			t.Errorf("%s: got %s", method, m.line)
		}
	}
	m := p.modern("tools/call", `{}`, `"name":"sandbox_stats","arguments":{}`)
	contains(t, string(m.Result), `"resultType":"complete"`, `"io.modelcontextprotocol/serverInfo"`, "slots taken")
	m = p.modern("subscriptions/listen", `{}`, `"notifications":{}`)
	contains(t, m.line, `subscriptionId":`+string(m.ID))

	// The older era may begin afterwards, and does not know the data of those requests.
	p.modern("tools/list", `{"elicitation":{}}`, "")
	p.initialize("2025-11-25", `{}`)
	p.modern("tools/list", `{"elicitation":{}}`, "")
	if m := p.call("tools/call", `{"name":"request_egress","arguments":{"domain":"a.example.com","reason":"x"}}`); m.Error != nil ||
		len(p.asks) > 0 {
		t.Errorf("the client has no dialogs, and is asked: %s", m.line)
	}
	if m := p.call("tools/list", `{}`); m.Error != nil || strings.Contains(m.line, "resultType") || strings.Contains(m.line, "ttlMs") {
		t.Errorf("got %.300s", m.line)
	}
}

// TestIdentity reads the server's description in both eras.
func TestIdentity(t *testing.T) {
	p := newRig(t, nil).connect()
	type capabilities struct {
		Tools, Resources, Logging, Prompts, Completions, Tasks, Sampling json.RawMessage
		Extensions                                                       map[string]json.RawMessage
	}
	type info struct {
		Name, Version, Title, Description string
		Icons                             []struct{ Src, MIMEType string }
	}
	var found struct {
		SupportedVersions        []string
		Capabilities             capabilities
		Instructions, CacheScope string
		TTLMs                    int
		Meta                     map[string]info `json:"_meta"`
	}
	if err := json.Unmarshal(p.modern("server/discover", `{}`, "").Result, &found); err != nil {
		t.Fatal(err)
	}
	object := json.RawMessage(`{}`)
	if diff := cmp.Diff(capabilities{Tools: object, Resources: object, Logging: object, Extensions: map[string]json.RawMessage{
		"io.modelcontextprotocol/tasks": object}}, found.Capabilities); diff != "" {
		t.Errorf("server/discover: want (-), got (+):\n%s", diff)
	}
	if found.Instructions == "" || found.TTLMs <= 0 || found.CacheScope != "private" {
		t.Errorf("server/discover: got %+v", found)
	}
	var greeted struct {
		Capabilities capabilities
		ServerInfo   info
	}
	if err := json.Unmarshal(p.initialize("2025-11-25", `{}`).Result, &greeted); err != nil {
		t.Fatal(err)
	}
	if greeted.Capabilities.Tasks != nil || greeted.Capabilities.Extensions != nil {
		t.Errorf("initialize: got %+v", greeted.Capabilities)
	}
	for _, i := range []info{greeted.ServerInfo, found.Meta["io.modelcontextprotocol/serverInfo"]} {
		if i.Name != "sandboxmcp" || i.Version != "test" || len(i.Description) < 20 || len(i.Icons) != 1 {
			t.Fatalf("got %+v", i)
		}
		raw, ok := strings.CutPrefix(i.Icons[0].Src, "data:image/png;base64,")
		data, err := base64.StdEncoding.DecodeString(raw)
		if !ok || err != nil {
			t.Fatalf("%v in %s", err, i.Icons[0].Src)
		}
		if picture, err := png.Decode(bytes.NewReader(data)); err != nil || picture.Bounds().Dx() != 48 {
			t.Errorf("the icon: %v", err)
		}
	}
}

// TestCacheHints: results have the protocol's cache hints, without which clients of 2026-07-28 refuse them.
func TestCacheHints(t *testing.T) {
	p := newRig(t, nil).connect()
	p.modern("tools/call", `{}`, `"name":"execute_code","arguments":{"language":"shell","code":"echo 42"}`)
	uri := resourcesOf(t, p.modern("resources/list", `{}`, ""), nil)[0]
	for method, test := range map[string]struct {
		params string
		long   bool
	}{
		"server/discover": {"", true}, "tools/list": {"", true}, "resources/templates/list": {"", true}, "resources/list": {"", false},
		"resources/read": {fmt.Sprintf(`"uri":%q`, uri), true},
	} {
		var got struct {
			TTLMs                  *int
			CacheScope, ResultType string
		}
		m := p.modern(method, `{}`, test.params)
		if err := json.Unmarshal(m.Result, &got); err != nil || got.TTLMs == nil || (*got.TTLMs > 0) != test.long ||
			got.CacheScope != "private" || got.ResultType != "complete" {
			t.Errorf("%s: %v, %.300s", method, err, m.line)
		}
	}
	if m := p.modern("resources/read", `{}`, `"uri":"sandbox://runs/01K00000000000000000000000/stdout"`); m.code() != -32602 {
		t.Errorf("a resource that there is not: got %s", m.line)
	}
}

// resourcesOf returns the URIs in a list of resources.
func resourcesOf(t *testing.T, m reply, cursor *string) (uris []string) {
	t.Helper()
	var got struct {
		Resources []struct {
			URI, Name, Description, MIMEType string
			Size                             int64
		}
		NextCursor string
	}
	if err := json.Unmarshal(m.Result, &got); err != nil {
		t.Fatalf("%v: %s", err, m.line)
	}
	for _, r := range got.Resources {
		if r.Name == "" || r.Description == "" || r.MIMEType == "" {
			t.Errorf("got %+v", r)
		}
		uris = append(uris, r.URI)
	}
	if cursor != nil {
		*cursor = got.NextCursor
	}
	return uris
}

// TestResourcesList lists the results of this server's runs, page by page, newest first.
func TestResourcesList(t *testing.T) {
	r := newRig(t, nil)
	p := r.hello("2025-11-25", `{}`)
	if got := resourcesOf(t, p.call("resources/list", `{}`), nil); len(got) != 0 {
		t.Errorf("before any run: %q", got)
	}
	const pageRuns = 20
	var want []string
	for i := range pageRuns + 3 {
		id := p.tool("execute_code", fmt.Sprintf(`{"language":"shell","code":"echo %d; echo x >&2; echo file > 'a b'; true >empty"}`,
			i)).facts["request_id"].(string)
		want = slices.Insert(want, 0, answer.RunURI(id, "stdout"), answer.RunURI(id, "stderr"), answer.RunURI(id, "files/a%20b"))
	}
	p.tool("execute_code", `{"language":"shell","code":"true"}`) // a run without results
	cursor := ""
	got := resourcesOf(t, p.call("resources/list", `{}`), &cursor)
	if cursor == "" || len(got) != 4*(pageRuns-1) {
		t.Errorf("the first page has %d, and the cursor %q", len(got), cursor)
	}
	got = append(got, resourcesOf(t, p.call("resources/list", fmt.Sprintf(`{"cursor":%q}`, cursor)), &cursor)...)
	got = slices.DeleteFunc(got, func(uri string) bool { return strings.HasSuffix(uri, "/empty") })
	if diff := cmp.Diff(want, got); diff != "" || cursor != "" {
		t.Errorf("cursor %q; want (-), got (+):\n%s", cursor, diff)
	}
	for _, uri := range got[:3] {
		if m := p.call("resources/read", fmt.Sprintf(`{"uri":%q}`, uri)); m.Error != nil {
			t.Errorf("%s: got %s", uri, m.line)
		}
	}
	for _, cursor := range []string{"%%", "bm9uZQ=="} {
		if m := p.call("resources/list", fmt.Sprintf(`{"cursor":%q}`, cursor)); m.code() != -32602 {
			t.Errorf("cursor %s: got %s", cursor, m.line)
		}
	}
	if got := resourcesOf(t, New(r.cfg).rig(r).hello("2025-11-25", `{}`).call("resources/list", `{}`), nil); len(got) != 0 {
		t.Errorf("the runs of another server are listed: %q", got)
	}
}

func (s *Server) rig(r *rig) *rig { return &rig{t: r.t, cfg: r.cfg, s: s} }

// state is the state of a task.
type state struct {
	TaskID, Status, ResultType, CreatedAt, LastUpdatedAt string
	TTLMs, PollIntervalMs                                int64
	Result                                               json.RawMessage
}

func stateOf(t *testing.T, m reply) (s state) {
	t.Helper()
	if err := json.Unmarshal(m.Result, &s); err != nil {
		t.Fatalf("%v: %s", err, m.line)
	}
	if s.TaskID != "" && (s.CreatedAt == "" || s.LastUpdatedAt == "") {
		t.Errorf("got %s", m.line)
	}
	return s
}

// TestTasks runs calls as tasks, for clients that declare the extension in the call.
func TestTasks(t *testing.T) {
	p := newRig(t, nil).connect()
	ask := func(method, id string) reply {
		t.Helper()
		return p.modern(method, knowsTasks, fmt.Sprintf(`"taskId":%q`, id))
	}
	run := func(code, more string) (reply, state) {
		t.Helper()
		m := p.modern("tools/call", knowsTasks, fmt.Sprintf(`"name":"execute_code","arguments":{"language":"shell","code":%q}%s`, code, more))
		return m, stateOf(t, m)
	}
	if m, got := run("echo at once", ""); got.ResultType == "complete" {
		contains(t, m.line, "at once") // on a busy machine it may become a task
	}
	code, alive, wake := sleeper(t)
	m, made := run(code+"; echo as a task", `,"task":{"ttl":60000}`) // ignored since 2026-07-28
	if made.ResultType != "task" || made.Status != "working" || made.TTLMs <= 0 || made.PollIntervalMs <= 0 || made.Result != nil {
		t.Fatalf("got %s", m.line)
	}
	if got := stateOf(t, ask("tasks/get", made.TaskID)); got.Status != "working" || got.ResultType != "complete" || got.Result != nil {
		t.Errorf("got %+v", got)
	}
	if m := p.modern("tasks/update", knowsTasks, fmt.Sprintf(`"taskId":%q,"inputResponses":{"x":{}}`, made.TaskID)); m.Error != nil ||
		stateOf(t, m).ResultType != "complete" {
		t.Errorf("got %s", m.line)
	}
	if !alive() {
		t.Error("the program has ended with the call")
	}
	wake()
	var got state
	hosttest.Until(t, "it is done", func() bool {
		got = stateOf(t, ask("tasks/get", made.TaskID))
		return got.Status != "working"
	})
	if got.Status != "completed" {
		t.Errorf("got %+v", got)
	}
	contains(t, string(got.Result), "as a task", `"content":[`, `"resultType":"complete"`)
	for range 2 { // also when it has ended
		if m := ask("tasks/cancel", made.TaskID); m.Error != nil || strings.Contains(m.line, "taskId") || stateOf(t, m).ResultType != "complete" {
			t.Errorf("got %s", m.line)
		}
	}
	code, alive, _ = sleeper(t)
	_, made = run(code, "")
	ask("tasks/cancel", made.TaskID)
	hosttest.Until(t, "it is gone", func() bool { return !alive() })
	if got := stateOf(t, ask("tasks/get", made.TaskID)); got.Status != "cancelled" {
		t.Errorf("got %+v", got)
	}

	// A call ends that is cancelled as a task, or before it becomes one.
	code, alive, _ = sleeper(t)
	id, answer := p.start("tools/call", fmt.Sprintf(`{"name":"execute_code","arguments":{"language":"shell","code":%q},`+modern+`}`, code,
		knowsTasks))
	hosttest.Until(t, "it runs", alive)
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
	hosttest.Until(t, "it is gone", func() bool { return !alive() })

	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		for _, id := range []string{`"none"`, "7", "null", "[]", `"` + strings.Repeat("x", 1<<20) + `"`} {
			if m := p.modern(method, knowsTasks, `"taskId":`+id); m.code() != -32602 {
				t.Errorf("%s of %.10s: got %.300s", method, id, m.line)
			}
		}
		if m := p.modern(method, `{}`, `"taskId":"none"`); m.code() != -32021 ||
			!strings.Contains(m.line, `"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`) {
			t.Errorf("%s without the extension: got %s", method, m.line)
		}
	}
	call := `"name":"execute_code","arguments":{"language":"shell","code":"sleep 0.6; echo out"},"task":{}`
	if m := p.modern("tools/call", `{}`, call); m.Error != nil || !strings.Contains(m.line, `"resultType":"complete"`) {
		t.Errorf("without the extension: got %s", m.line)
	}
	if m := p.modern("tools/call", knowsTasks, `"name":"sandbox_stats","arguments":{},"task":{}`); m.Error != nil ||
		!strings.Contains(m.line, `"resultType":"complete"`) {
		t.Errorf("a tool that is not a task: got %s", m.line)
	}
	if len(answer) > 0 {
		t.Errorf("a cancelled request is answered: %s", (<-answer).line)
	}

	// A task ends with its connection, and other connections don't know it.
	code, alive, _ = sleeper(t)
	_, made = run(code, "")
	hosttest.Until(t, "it runs", alive)
	other := newRig(t, nil).hello("2025-11-25", `{}`)
	if m := other.modern("tasks/get", knowsTasks, fmt.Sprintf(`"taskId":%q`, made.TaskID)); m.code() != -32602 {
		t.Errorf("got %s", m.line)
	}
	if m := other.call("tools/call", "{"+call+"}"); stateOf(t, m).TaskID != "" || !strings.Contains(m.line, "exit code 0") {
		t.Errorf("a call of 2025-11-25: got %s", m.line)
	}
	p.close()
	if alive() {
		t.Error("the task's program lives on")
	}
}
