package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/signer"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

func TestServerTools(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	schemas := outputs(t, p)
	p.tool("execute_code", `{"language":"shell","code":"exit 3"}`)
	for _, test := range []struct {
		tool, arguments string
		failed          bool
		want            []string
	}{
		{"list_runtimes", `{}`, false, []string{"backend process can run code", "- python 3", "- node ", "- shell ", "layers: user mount"}},
		{"list_runtimes", `{"backend":"docker"}`, true, []string{"docker", "process"}},
		{"sandbox_stats", `{}`, false, []string{"exit 1", "of 8 slots", "p50"}},
		{"set_resource_limits", `{"namespace":"small","max_ram_mb":64,"timeout_seconds":0.5}`, false,
			[]string{"64 MB of memory", "0.5 s", "maximum: "}},
		{"sandbox_stats", `{"namespace":"nobody"}`, false, []string{"runs: none", "sessions: none"}},
		{"set_resource_limits", `{"namespace":"small","max_ram_mb":1000000}`, true, []string{"cap", "at most max_ram_mb "}},
		{"set_resource_limits", `{"namespace":"small","timeout_seconds":80000}`, true, []string{"cap", "at most timeout_seconds "}},
		{"create_session", `{"resource_limits":{"timeout_seconds":80000}}`, true, []string{"cap", "at most resource_limits.timeout_seconds "}},
		{"set_resource_limits", `{"session_id":"01K00000000000000000000000","max_ram_mb":64}`, true, []string{"session"}},
		{"execute_code", `{"namespace":"small","language":"shell","code":"sleep 1000"}`, false, []string{"timed out after "}},
		{"inspect_state", `{}`, false, []string{"0 sessions", "0 background runs", "a run in namespace default: 512 MB"}},
		{"inspect_state", `{"namespace":"small"}`, false, []string{"64 MB of memory"}},
		{"inspect_state", `{"session_id":"01K00000000000000000000000"}`, true, []string{"create_session"}},
		{"terminate_session", `{"session_id":"01K00000000000000000000000"}`, true, []string{"session"}},
		{"bridge_data", `{"session_id":"01K00000000000000000000000","key":"x"}`, true, []string{`"value"`}},
		{"audit_execution", `{"kinds":["execution.completed"]}`, false, []string{"1 row\n", "execution.completed default", `"exit_code":3`}},
		{"audit_execution", `{"kinds":["execution.refuse"]}`, true,
			[]string{`argument "kinds": unknown kind of row "execution.refuse": did you mean "execution.refused"?`, "execution.completed"}},
		{"audit_execution", `{"kinds":["execution.refused","nonsense"]}`, true,
			[]string{`unknown kind of row "nonsense"`, "choose from: execution.started"}},
		{"audit_execution", `{"limit":1}`, false, []string{"1 row\n"}},
		{"audit_execution", `{"after":0,"limit":1}`, false, []string{"1 execution.started"[1:], `"after": 1`}},
		{"audit_execution", `{"since":"1h","until":"2200-01-01"}`, false, []string{"execution.timeout"}},
		{"audit_execution", `{"since":"yesterday"}`, true, []string{`"since"`}},
		{"audit_execution", `{"namespace":"nobody"}`, false, []string{"0 rows"}},
		{"web_search", `{"query":"x"}`, true, []string{"web tools are off", "web.enabled: true"}},
		{"fetch_webpage", `{"url":"https://example.com"}`, true, []string{"web.enabled: true"}},
		{"browser_fetch", `{"url":"https://example.com"}`, true, []string{"web.enabled: true"}},
		{"host_exec", `{"command":"id"}`, true, []string{"host access is off", "host.enabled: true"}},
		{"request_host_access", `{"kind":"command","pattern":"id"}`, true, []string{"host.enabled: true"}},
		{"list_host_access", `{}`, true, []string{"host.enabled: true"}},
		{"host_file_read", `{"path":"/etc/passwd"}`, true, []string{"host.enabled: true"}},
		{"host_file_write", `{"path":"/tmp/x","content":"x"}`, true, []string{"host.enabled: true"}},
		{"host_file_list", `{"path":"/tmp"}`, true, []string{"host.enabled: true"}},
		{"host_file_copy", `{"source":"/tmp/x","destination":"/tmp/y"}`, true, []string{"host.enabled: true"}},
	} {
		r := p.tool(test.tool, test.arguments)
		if r.IsError != test.failed {
			t.Errorf("%s %s: isError %v: %s", test.tool, test.arguments, r.IsError, r.text)
		}
		contains(t, r.text, test.want...)
		checkConforms(t, test.tool+" "+test.arguments, schemas[test.tool], r.Structured)
	}
	contains(t, p.tool("audit_execution", `{"kinds":["execution.refused"],"limit":100}`).text, "host_exec", "/etc/passwd")
	for _, kind := range append(rowKinds(t, p), vault.Added, vault.Rotated, vault.Deleted, vault.Rekeyed, signer.Created, signer.Rotated,
		signer.Revoked) {
		if err := event.CheckRows([]string{kind}); err != nil {
			t.Error(err)
		}
	}
}

// rowKinds returns the kinds of the last rows of the audit log.
func rowKinds(t *testing.T, p *peer) (kinds []string) {
	for _, row := range strings.Split(p.tool("audit_execution", `{"limit":500}`).text, "\n")[1:] {
		kinds = append(kinds, strings.Fields(row)[2])
	}
	if len(kinds) < 20 {
		t.Fatalf("%d rows", len(kinds))
	}
	return kinds
}

func TestPinnedNamespace(t *testing.T) {
	r := newRig(t, nil)
	other := r.hello("2025-11-25", `{}`)
	run := other.tool("execute_code", `{"language":"shell","code":"echo theirs","namespace":"theirs"}`)
	r.cfg.Namespace = "ours"
	pinned := &rig{t: t, cfg: r.cfg, s: New(r.cfg)}
	p := pinned.hello("2025-11-25", `{}`)
	for name, raw := range listTools(t, p) {
		var one struct {
			InputSchema struct{ Properties map[string]any }
		}
		if err := json.Unmarshal(raw, &one); err != nil || one.InputSchema.Properties == nil || one.InputSchema.Properties["namespace"] != nil {
			t.Errorf("%s: %v, %s", name, err, raw)
		}
		arguments := strings.Replace(fine[name], "{", `{"namespace":"theirs",`, 1)
		if r := p.tool(name, strings.Replace(arguments, ",}", "}", 1)); !r.IsError || !strings.Contains(r.text, `"namespace"`) {
			t.Errorf("%s: got %v, %q", name, r.IsError, r.text)
		}
	}
	if r := p.tool("execute_code", `{"code":"1","nosuch":1}`); strings.Contains(r.text, "namespace") {
		t.Errorf("it is offered: %q", r.text)
	}
	if r := p.tool("audit_execution", `{"namespace":"theirs"}`); !r.IsError {
		t.Errorf("got %q", r.text)
	}
	if r := p.tool("execute_code", `{"language":"shell","code":"echo mine"}`); r.facts["namespace"] != "ours" {
		t.Errorf("got %v", r.facts["namespace"])
	}
	if r := p.tool("execute_code", `{"language":"shell","code":"echo mine","namespace":"ours"}`); r.IsError {
		t.Errorf("got %q", r.text)
	}
	id := run.facts["request_id"].(string)
	if r := p.tool("get_artifacts", fmt.Sprintf(`{"request_id":%q,"name":"stdout"}`, id)); !r.IsError {
		t.Errorf("the run of another namespace can be read: %q", r.text)
	}
	if m := p.call("resources/read", fmt.Sprintf(`{"uri":"sandbox://runs/%s/stdout"}`, id)); m.Error == nil {
		t.Errorf("the run of another namespace can be read: %s", m.line)
	}
	if r := p.tool("audit_execution", `{}`); strings.Contains(r.text, "theirs") {
		t.Errorf("the rows of another namespace can be read: %s", r.text)
	}
}

// TestApprovals asks clients of both eras, and clients without dialogs.
func TestApprovals(t *testing.T) {
	r := newRig(t, nil)
	schema := outputs(t, r.hello("2025-11-25", `{}`))["request_egress"]
	ask := func(domain string) string {
		return fmt.Sprintf(`{"name":"request_egress","arguments":{"domain":%q,"reason":"to \u001b[2Jtest\nHost: other","namespace":"n"}}`, domain)
	}
	state := func(t *testing.T, m reply, p *peer) string {
		t.Helper()
		got := p.read1(m)
		checkConforms(t, "request_egress", schema, got.Structured)
		s, _ := got.facts["state"].(string)
		return s
	}
	granted := func(domain string) bool {
		return slices.ContainsFunc(r.cfg.Approvals.Grants(), func(g approval.Grant) bool {
			return g.Question.Namespace == "n" &&
				g.Question.What == domain
		})
	}
	t.Run("no dialogs", func(t *testing.T) {
		p := r.hello("2025-11-25", `{}`)
		got := p.read1(p.call("tools/call", ask("a.example.com")))
		checkConforms(t, "request_egress", schema, got.Structured)
		id, _ := got.facts["approval_id"].(string)
		contains(t, got.text, "pending", "sandboxmcp egress approve "+id)
		if err := r.cfg.Approvals.Answer(t.Context(), id, approval.Answer{Allowed: true, By: approval.CommandLine()}); err != nil {
			t.Fatal(err)
		}
		if s := state(t, p.call("tools/call", ask("a.example.com")), p); s != "approved" {
			t.Errorf("got %s", s)
		}
	})
	for domain, test := range map[string]struct{ answer, want string }{
		"b.example.com": {`{"action":"accept","content":{"decision":"allow_time"}}`, "approved"},
		"c.example.com": {`{"action":"accept","content":{"decision":"deny"}}`, "denied"},
		"d.example.com": {`{"action":"decline"}`, "denied"},
		"e.example.com": {`{"action":"cancel"}`, "pending"},
		"f.example.com": {`{"action":"accept","content":{}}`, "pending"},
		"g.example.com": {`{"action":"accept"}`, "pending"},
		"h.example.com": {`{"action":"accept","content":{"decision":"Allow please"}}`, "pending"},
	} {
		t.Run("older protocol, "+test.answer, func(t *testing.T) {
			p := r.hello("2025-06-18", `{"elicitation":{}}`)
			_, answer := p.start("tools/call", ask(domain))
			q := p.wait(p.asks)
			var params struct {
				Message         string
				RequestedSchema struct{ Properties map[string]any }
			}
			if err := json.Unmarshal(q.Params, &params); err != nil || q.Method != "elicitation/create" ||
				params.RequestedSchema.Properties["decision"] == nil {
				t.Fatalf("%v: %s", err, q.line)
			}
			contains(t, params.Message, domain, "Namespace: n", "\nFor: 1h")
			if strings.Contains(params.Message, "\x1b") || strings.Contains(params.Message, "\nHost: other") {
				t.Errorf("the agent's reason can pretend to be ours: %q", params.Message)
			}
			p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, test.answer))
			if s := state(t, p.wait(answer), p); s != test.want || granted(domain) != (s == "approved") {
				t.Errorf("got %s, granted %v", s, granted(domain))
			}
		})
	}
	t.Run("older protocol, error", func(t *testing.T) {
		p := r.hello("2025-11-25", `{"elicitation":{"form":{}}}`)
		_, answer := p.start("tools/call", ask("i.example.com"))
		q := p.wait(p.asks)
		p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no"}}`, q.ID))
		if s := state(t, p.wait(answer), p); s != "pending" {
			t.Errorf("got %s", s)
		}
	})
	t.Run("answered elsewhere", func(t *testing.T) {
		p := r.hello("2025-11-25", `{"elicitation":{}}`)
		_, answer := p.start("tools/call", ask("j.example.com"))
		q := p.wait(p.asks)
		for _, open := range r.cfg.Approvals.Pending() {
			if open.What == "j.example.com" {
				r.cfg.Approvals.Answer(t.Context(), open.ID, approval.Answer{Allowed: true, By: approval.CommandLine()})
			}
		}
		if s := state(t, p.wait(answer), p); s != "approved" {
			t.Errorf("got %s", s)
		}
		if m := p.wait(p.notes); m.Method != "notifications/cancelled" || !strings.Contains(m.line, fmt.Sprintf(`"requestId":%s`, q.ID)) {
			t.Errorf("the dialog stays: got %s", m.line)
		}
	})
	t.Run("silence", func(t *testing.T) {
		r := newRig(t, func(c *Config) {
			c.Approvals = approval.New(approval.Config{Audit: c.Log.(*audit.Log), Timeout: time.Second})
		})
		defer r.cfg.Approvals.Close()
		p := r.hello("2025-11-25", `{"elicitation":{}}`)
		start := time.Now()
		if s := state(t, p.call("tools/call", ask("k.example.com")), p); s != "denied" || time.Since(start) < time.Second {
			t.Errorf("got %s after %v", s, time.Since(start))
		}
	})
	t.Run("only root", func(t *testing.T) {
		r := newRig(t, func(c *Config) {
			c.Approvals = approval.New(approval.Config{Audit: c.Log.(*audit.Log), Root: true})
		})
		defer r.cfg.Approvals.Close()
		p := r.hello("2025-11-25", `{"elicitation":{}}`)
		if s := state(t, p.call("tools/call", ask("r.example.com")), p); s != "pending" {
			t.Errorf("got %s", s)
		}
		select {
		case q := <-p.asks:
			t.Errorf("a dialog of the client is shown, whose answer has no effect: %s", q.line)
		default:
		}
	})
	t.Run("stateless protocol", func(t *testing.T) {
		p := r.connect()
		meta := fmt.Sprintf(modern, `{"elicitation":{}}`)
		with := func(domain, more string) reply {
			return p.call("tools/call", strings.TrimSuffix(ask(domain), "}")+","+meta+more+"}")
		}
		var got struct {
			ResultType, RequestState string
			InputRequests            map[string]struct{ Method string }
		}
		if err := json.Unmarshal(with("l.example.com", "").Result, &got); err != nil || got.ResultType != "input_required" ||
			got.InputRequests["approval"].Method != "elicitation/create" {
			t.Fatalf("%v, %+v", err, got)
		}
		allow := `,"inputResponses":{"approval":{"action":"accept","content":{"decision":"allow_time"}}},"requestState":%q`
		// An answer to another question does not count.
		if m := with("m.example.com", fmt.Sprintf(allow, got.RequestState)); !strings.Contains(m.line, "input_required") ||
			granted("m.example.com") {
			t.Errorf("got %s", m.line)
		}
		if s := state(t, with("l.example.com", fmt.Sprintf(allow, got.RequestState)), p); s != "approved" || !granted("l.example.com") {
			t.Errorf("got %s", s)
		}
		// A client without dialogs can't answer in one.
		q := p.read1(p.call("tools/call", strings.TrimSuffix(ask("o.example.com"), "}")+","+fmt.Sprintf(modern, "{}")+"}"))
		m := p.call("tools/call", strings.TrimSuffix(ask("o.example.com"), "}")+","+fmt.Sprintf(modern, "{}")+
			fmt.Sprintf(allow, q.facts["approval_id"])+"}")
		if s := state(t, m, p); s != "pending" || granted("o.example.com") {
			t.Errorf("got %s", s)
		}
	})
	t.Run("bad domains", func(t *testing.T) {
		p := r.hello("2025-11-25", `{}`)
		for _, domain := range []string{"*", "*.com", "https://example.com", "10.0.0.1", "a b", " "} {
			if got := p.read1(p.call("tools/call", ask(domain))); !got.IsError || !strings.Contains(got.text, `"domain"`) {
				t.Errorf("%q: got %q", domain, got.text)
			}
		}
	})
}

// TestSessions needs kernels.
func TestSessions(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	schemas := outputs(t, p)
	call := func(tool, arguments string) result {
		t.Helper()
		r := p.tool(tool, arguments)
		checkConforms(t, tool+" "+arguments, schemas[tool], r.Structured)
		return r
	}
	made := call("create_session", `{"language":"python","namespace":"s","idle_seconds":600}`)
	if made.IsError {
		t.Fatalf("got %q", made.text)
	}
	id, _ := made.facts["session_id"].(string)
	contains(t, made.text, "session_id: "+id, "600 s without a call")
	cell := func(code string) result {
		t.Helper()
		return call("execute_code", fmt.Sprintf(`{"session_id":%q,"code":%q}`, id, code))
	}
	cell("x = 20")
	contains(t, cell("x + 22").text, "value: 42", "exit code 0")
	failed := cell("raise ValueError('wrong')")
	contains(t, failed.text, "error:\n", "ValueError: wrong", "exit code 1")
	if e, _ := failed.facts["program_error"].(map[string]any); e["type"] != "ValueError" || failed.IsError {
		t.Errorf("got %s", failed.Structured)
	}
	contains(t, call("bridge_data", fmt.Sprintf(`{"session_id":%q,"key":"d","value":"{\"a\": [1, 2]}"}`, id)).text, "d is set", "object")
	contains(t, call("bridge_data", fmt.Sprintf(`{"session_id":%q,"key":"e","value":{"b":[3]}}`, id)).text, "e is set", "object")
	contains(t, call("bridge_data", fmt.Sprintf(`{"session_id":%q,"key":"s","value":"plain"}`, id)).text, "string")
	contains(t, call("bridge_data", fmt.Sprintf(`{"session_id":%q,"key":"none","value":null}`, id)).text, "null")
	contains(t, call("bridge_data", fmt.Sprintf(`{"session_id":%q,"key":"same","from_session_id":%[1]q,"from_key":"s","value":null}`,
		id)).text, "same is set")
	contains(t, cell("none is None and same == s").text, "True")
	contains(t, cell("d['a'] + e['b'], s").text, "([1, 2, 3], 'plain')")
	state := call("inspect_state", fmt.Sprintf(`{"session_id":%q}`, id))
	contains(t, state.text, "- x (int): 20", "- d (dict)")
	contains(t, call("inspect_state", `{}`).text, "1 session\n", id)
	contains(t, call("set_resource_limits", fmt.Sprintf(`{"session_id":%q,"max_ram_mb":300}`, id)).text, "300 MB")
	contains(t, cell("open('out.txt','w').write('kept')").text, "- out.txt, 4 bytes")
	contains(t, call("get_artifacts", fmt.Sprintf(`{"session_id":%q}`, id)).text, "- out.txt", "no files or output of ")
	contains(t, call("get_artifacts", `{"session_id":"01K00000000000000000000000"}`).text, "no stored runs", "inspect_state")
	contains(t, call("get_artifacts", fmt.Sprintf(`{"session_id":%q,"name":"out.txt"}`, id)).text, "kept")
	if r := call("execute_code", fmt.Sprintf(`{"session_id":%q,"language":"node","code":"1"}`, id)); !r.IsError {
		t.Errorf("another language: got %q", r.text)
	}
	if r := call("execute_code", fmt.Sprintf(`{"session_id":%q,"namespace":"other","code":"1"}`, id)); !r.IsError {
		t.Errorf("another namespace: got %q", r.text)
	}
	contains(t, call("terminate_session", fmt.Sprintf(`{"session_id":%q}`, id)).text, "has ended")
	contains(t, cell("1").text, "create_session")
}

func TestImages(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	made := p.tool("create_session", `{"language":"python"}`)
	if made.IsError {
		t.Fatalf("got %q", made.text)
	}
	r := p.tool("execute_code", fmt.Sprintf(`{"session_id":%q,"code":%s}`, made.facts["session_id"], quoted(`
class Dot:
    def _repr_png_(self):
        import base64
        return base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
    def _repr_html_(self): return "<b>dot</b>"
    def __repr__(self): return "a dot"
Dot()`)))
	contains(t, r.text, "value: [image/png of ", "a dot")
	if len(r.Content) != 2 || r.Content[1].Type != "image" || r.Content[1].MIMEType != "image/png" || strings.Contains(r.text, "<b>") {
		t.Errorf("got %+v", r.Content)
	}
	if v, _ := r.facts["value"].(map[string]any); v["html"] != "<b>dot</b>" {
		t.Errorf("got %s", r.Structured)
	}
}

// TestCellsInOrder sends cells without waiting: they run in order of arrival.
func TestCellsInOrder(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	one, _ := p.tool("create_session", `{"language":"shell"}`).facts["session_id"].(string)
	two, _ := p.tool("create_session", `{"language":"shell"}`).facts["session_id"].(string)
	run := func(id, code string) chan reply {
		_, answer := p.start("tools/call", fmt.Sprintf(`{"name":"execute_code","arguments":{"session_id":%q,"code":%q}}`, id, code))
		return answer
	}
	var want string
	for i := range 20 {
		run(one, fmt.Sprintf("sleep 0.001; all+=%d,", i))
		want += fmt.Sprint(i, ",")
	}
	_, bridged := p.start("tools/call", fmt.Sprintf(`{"name":"bridge_data","arguments":{"session_id":%q,"from_session_id":%q,"key":"all"}}`,
		two, one))
	last := run(two, "echo $all")
	if m := p.wait(bridged); m.Error != nil {
		t.Error(m.line)
	}
	contains(t, p.read1(p.wait(last)).text, want)

	// A background cell keeps its place, too.
	_, begun := p.start("tools/call", fmt.Sprintf(`{"name":"execute_code","arguments":{"session_id":%q,"code":"sleep 0.1; all=background","background":true}}`, one))
	next := run(one, "echo after $all")
	p.wait(begun)
	contains(t, p.read1(p.wait(next)).text, "after background")

	// Calls after a cancelled one, and calls that end a session, do not wait.
	id, cancelled := p.start("tools/call", fmt.Sprintf(`{"name":"execute_code","arguments":{"session_id":%q,"code":"sleep 100"}}`, one))
	behind := run(one, "echo behind")
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
	contains(t, p.read1(p.wait(behind)).text, "behind")
	if len(cancelled) > 0 {
		t.Error("the cancelled call was answered")
	}
	run(two, "sleep 100")
	behind = run(two, "echo behind")
	contains(t, p.tool("terminate_session", fmt.Sprintf(`{"session_id":%q}`, two)).text, "has ended")
	if r := p.read1(p.wait(behind)); !r.IsError {
		t.Errorf("got %q", r.text)
	}
}

func TestValidateCode(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	schemas := outputs(t, p)
	for _, test := range []struct{ arguments, want string }{
		{`{"code":"print(1)"}`, "valid python"},
		{`{"code":"def f(:\n  pass"}`, "not valid: 1 problem\nline 1"},
		{`{"code":"const = 1","language":"javascript"}`, "not valid: 1 problem\nline 1"},
		{`{"code":"echo 1","language":"bash"}`, "valid shell"},
		{`{"code":"echo 1\r\n","language":"bash"}`, "no suspicious patterns"},
		{`{"code":"const x: number = 1","language":"ts"}`, "valid typescript"},
		{`{"code":"print(np.zeros(3))","auto_fix":true}`, "import numpy as np"},
		{`{"code":"import os\nos.system('x')"}`, "line 2"},
	} {
		r := p.tool("validate_code", test.arguments)
		checkConforms(t, test.arguments, schemas["validate_code"], r.Structured)
		contains(t, r.text, test.want)
	}
}

// BenchmarkCall measures the protocol: a call of a trivial tool, through pipes.
func BenchmarkCall(b *testing.B) {
	p := newRig(b, nil).hello("2025-11-25", `{}`)
	for b.Loop() {
		_, answer := p.start("tools/call", `{"name":"sandbox_stats","arguments":{}}`)
		if m := <-answer; m.Error != nil {
			b.Fatal(m.line)
		}
	}
}
