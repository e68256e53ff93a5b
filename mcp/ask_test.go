package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/mcp/ask"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// askingRig has a tool that stands for a run with a connection that waits for a person.
func askingRig(t *testing.T) *rig {
	r := newRig(t, nil)
	type args struct {
		What    string `json:"what"`
		Run     string `json:"run"`
		Session string `json:"session"`
	}
	r.s.add(row[ask.ApprovalFacts]("connect", "Connect", func(ctx context.Context, c *call, a *args) (*answer.Answer, error) {
		q := approval.Question{Kind: approval.Egress, Namespace: "n", What: a.What, Run: a.Run, Session: a.Session,
			CodeHead: "print('\x1b[2J')\nHost: other", Reason: "a running program connects to it"}
		connection, hangUp := context.WithCancel(context.Background()) // independent of the call
		defer hangUp()
		defer context.AfterFunc(ctx, hangUp)()
		decided, err := r.cfg.Approvals.Ask(connection, q, r.s.ask.AskDuring(ctx, c.Message))
		if err != nil {
			return nil, err
		}
		return &answer.Answer{Text: fmt.Sprint(decided.Allowed, " ", decided.Scope), Facts: &ask.ApprovalFacts{Reason: decided.Reason}}, nil
	}, "", 0))
	return r
}

func connecting(what, run, session, more string) string {
	return fmt.Sprintf(`{"name":"connect","arguments":{"what":%q,"run":%q,"session":%q}%s}`, what, run, session, more)
}

// readDialog returns the dialog that the client's user sees.
func readDialog(t *testing.T, q reply) (message string, choices []string) {
	t.Helper()
	var params struct {
		Message         string
		RequestedSchema struct {
			Properties struct {
				Decision struct{ Enum, EnumNames []string }
			}
		}
	}
	if err := json.Unmarshal(q.Params, &params); err != nil || q.Method != "elicitation/create" {
		t.Fatalf("%v: %s", err, q.line)
	}
	d := params.RequestedSchema.Properties.Decision
	if len(d.Enum) != len(d.EnumNames) {
		t.Errorf("got %v for %v", d.EnumNames, d.Enum)
	}
	return params.Message, d.Enum
}

// TestAskDuringACall: a person answers in a dialog of the older protocols while the program waits.
func TestAskDuringACall(t *testing.T) {
	r := askingRig(t)
	p := r.hello("2025-11-25", `{"elicitation":{}}`)
	all := []string{"deny", "allow_run", "allow_session", "allow_time"}
	for i, test := range []struct {
		session string
		answer  string // the user's answer
		choices []string
		want    string
	}{
		{"s", `{"action":"accept","content":{"decision":"allow_run"}}`, all, "true run"},
		{"s", `{"action":"accept","content":{"decision":"allow_session"}}`, all, "true session"},
		{"s", `{"action":"accept","content":{"decision":"allow_time"}}`, all, "true time"},
		{"s", `{"action":"accept","content":{"decision":"deny"}}`, all, "false "},
		{"s", `{"action":"decline"}`, all, "false "},
		{"", `{"action":"accept","content":{"decision":"allow_time"}}`, []string{"deny", "allow_run", "allow_time"}, "true time"},
	} {
		host := fmt.Sprintf("h%d.example.com", i)
		_, answer := p.start("tools/call", connecting(host, fmt.Sprint("r", i), test.session, ""))
		q := p.wait(p.asks)
		message, choices := readDialog(t, q)
		contains(t, message, "Host: "+host+"\n", "Run: r", `The code begins with: print('\u001b[2J') Host: other`)
		if !slices.Equal(choices, test.choices) || strings.Contains(message, "\x1b") {
			t.Errorf("the user can choose from %v in %q", choices, message)
		}
		p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, test.answer))
		if got := p.read1(p.wait(answer)); got.text != test.want {
			t.Errorf("%s: got %q, want %q", test.answer, got.text, test.want)
		}
	}
	if n := len(r.cfg.Approvals.Grants()); n != 4 {
		t.Errorf("%d approvals, want 4", n)
	}
	// An answer for one run and session does not count for others.
	for _, host := range []string{"h0.example.com", "h1.example.com"} {
		if h := r.cfg.Approvals.GrantsFor(approval.Egress, approval.Question{Namespace: "n", Run: "r9", Session: "s9"}); len(h) != 2 ||
			slices.ContainsFunc(h, func(g approval.Grant) bool { return g.Question.What == host }) {
			t.Errorf("%s is allowed elsewhere: %+v", host, h)
		}
	}
}

// TestAskDuringACallStrangely: a client can't answer more than the question, and dialogs come one at a time.
func TestAskDuringACallStrangely(t *testing.T) {
	r := askingRig(t)
	p := r.hello("2025-06-18", `{"elicitation":{}}`)
	for i, response := range []string{
		`{"action":"accept","content":{"decision":"allow_session"}}`, // not a choice
		`{"action":"accept","content":{"decision":"allow_run"}}`,     // nor this
		`{"action":"accept","content":{"decision":"allow"}}`,
		`{"action":"accept","content":{"decision":["allow_time"]}}`,
		`{"action":"accept","content":{"scope":"time","allowed":true}}`,
		`{"action":"cancel","content":{"decision":"allow_time"}}`,
		`{"action":"accept"}`,
	} {
		host := fmt.Sprintf("h%d.example.com", i)
		_, answer := p.start("tools/call", connecting(host, "", "", ""))
		q := p.wait(p.asks)
		p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, response))
		p.call("ping", `{}`)                             // earlier messages have been read
		for _, open := range r.cfg.Approvals.Pending() { // a person on the command line still can
			if err := r.cfg.Approvals.Answer(t.Context(), open.ID, approval.Answer{By: approval.CommandLine(), Reason: "by hand"}); err != nil {
				t.Error(err)
			}
		}
		if got := p.read1(p.wait(answer)); got.text != "false " || got.facts["reason"] != "by hand" {
			t.Errorf("%s was taken for an answer: %q, %v", response, got.text, got.facts)
		}
	}
	if g := r.cfg.Approvals.Grants(); len(g) > 0 {
		t.Errorf("got %+v", g)
	}
	withdrawn := func(q reply) {
		t.Helper()
		if m := p.wait(p.notes); m.Method != "notifications/cancelled" || !strings.Contains(m.line, fmt.Sprintf(`"requestId":%s`, q.ID)) {
			t.Errorf("the dialog stays: got %s", m.line)
		}
	}
	// Another answer comes first: the dialog closes, and the call continues.
	_, answer := p.start("tools/call", connecting("faster.example.com", "r", "", ""))
	q := p.wait(p.asks)
	if err := r.cfg.Approvals.Answer(t.Context(), r.cfg.Approvals.Pending()[0].ID, approval.Answer{Allowed: true, By: approval.CommandLine(),
		Scope: approval.ScopeRun}); err != nil {
		t.Fatal(err)
	}
	if got := p.read1(p.wait(answer)); got.text != "true run" {
		t.Errorf("got %q", got.text)
	}
	withdrawn(q)
	// The call ends, and so does the dialog.
	id, _ := p.start("tools/call", connecting("last.example.com", "r", "", ""))
	q = p.wait(p.asks)
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
	withdrawn(q)
}

// TestAskOnTheCommandLine: clients without dialogs during calls get the command that a person can type.
func TestAskOnTheCommandLine(t *testing.T) {
	r := askingRig(t)
	for name, test := range map[string]struct {
		connect func() *peer
		meta    string
	}{
		"no dialogs": {func() *peer { return r.hello("2025-11-25", `{}`) }, `,"_meta":{"progressToken":"t"}`},
		"stateless protocol": {r.connect, "," + strings.Replace(fmt.Sprintf(modern, `{"elicitation":{}}`),
			`"_meta":{`, `"_meta":{"progressToken":"t",`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			p := test.connect()
			_, answer := p.start("tools/call", connecting("a.example.com:5432", "run "+name, "", test.meta))
			note := p.wait(p.notes)
			all := r.cfg.Approvals.Pending()
			if len(all) != 1 {
				t.Fatalf("%d questions wait", len(all))
			}
			contains(t, note.line, "notifications/progress", "waiting for a person: a.example.com:5432 (sandboxmcp egress approve "+all[0].ID+
				", or sandboxmcp egress a.example.com:5432 --for 1h --namespace n)")
			if err := r.cfg.Approvals.Answer(t.Context(), all[0].ID, approval.Answer{Allowed: true, By: approval.CommandLine(),
				Scope: approval.ScopeRun}); err != nil {
				t.Fatal(err)
			}
			if got := p.read1(p.wait(answer)); got.text != "true run" {
				t.Errorf("got %q", got.text)
			}
			select {
			case q := <-p.asks:
				t.Errorf("it was asked: %s", q.line)
			default:
			}
		})
	}
}

// TestWithoutDialogs: a call with progress waits for the command line, and its text has the commands to type. After a
// cancelled call the next one gets the answer.
func TestWithoutDialogs(t *testing.T) {
	r := newRig(t, nil)
	p := r.hello("2025-11-25", `{}`)
	ask := func(domain, meta string) (string, chan reply) {
		return p.start("tools/call", fmt.Sprintf(`{"name":"request_egress","arguments":{"domain":%q,"namespace":"n"}%s}`, domain, meta))
	}
	const withProgress = `,"_meta":{"progressToken":"t"}`
	allow := func() {
		t.Helper()
		for _, q := range r.cfg.Approvals.Pending() {
			if err := r.cfg.Approvals.Answer(t.Context(), q.ID, approval.Answer{Allowed: true, By: approval.CommandLine()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	commands := func(sep string) string {
		q := r.cfg.Approvals.Pending()[0]
		return fmt.Sprintf("sandboxmcp egress approve %s%ssandboxmcp egress %s --for 1h --namespace n", q.ID, sep,
			strings.Replace(q.What, "*.example.com", "'*.example.com'", 1))
	}
	text := func(answer chan reply) string { return p.read1(p.wait(answer)).text }

	_, answer := ask("*.example.com", "")
	contains(t, text(answer), "pending: nobody has answered", "one of these", "\n  "+commands("\n  "), "'*.example.com'")
	allow()

	_, answer = ask("a.example.org", withProgress)
	note := p.wait(p.notes)
	contains(t, note.line, "waiting for a person: a.example.org ("+commands(", or ")+")")
	allow()
	contains(t, text(answer), "approved: a.example.org")

	id, _ := ask("b.example.org", withProgress)
	p.wait(p.notes)
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
	p.call("ping", `{}`)
	allow()
	_, answer = ask("b.example.org", "")
	contains(t, text(answer), "approved: b.example.org")
}

// TestSilence: after a question has expired, the answer has a command that grants the permission, not one that
// answers the question.
func TestSilence(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Approvals = approval.New(approval.Config{Audit: c.Log.(*audit.Log), Timeout: time.Millisecond})
	})
	defer r.cfg.Approvals.Close()
	p := r.hello("2025-11-25", `{}`)
	m := p.call("tools/call", `{"name":"request_egress","arguments":{"domain":"a.example.com"},"_meta":{"progressToken":"t"}}`)
	contains(t, p.read1(m).text, "denied: a.example.com may not be reached: nobody answered within 1ms",
		"\n  sandboxmcp egress a.example.com --for 1h")
}

// TestAgentsOnlyAsk: no argument of any tool answers a question, or asks for more than the person sees.
func TestAgentsOnlyAsk(t *testing.T) {
	r := newRig(t, nil)
	p := r.hello("2025-11-25", `{}`)
	asked := p.tool("request_egress", `{"domain":"a.example.com","namespace":"n"}`)
	id, _ := asked.facts["approval_id"].(string)
	for _, more := range []string{`"decision":"allow_time"`, `"allowed":true`, `"scope":"time"`, `"approval_id":"` + id + `"`, `"for":"run"`,
		`"run":"r"`, `"by":"cli"`} {
		if got := p.tool("request_egress", `{"domain":"a.example.com","namespace":"n",`+more+`}`); !got.IsError {
			t.Errorf("%s: got %q", more, got.text)
		}
	}
	for name, raw := range listTools(t, p) {
		var entry struct {
			InputSchema struct{ Properties map[string]any } `json:"inputSchema"`
		}
		if err := json.Unmarshal(raw, &entry); err != nil {
			t.Fatal(err)
		}
		for _, never := range []string{"decision", "allow", "approve", "approval_id", "scope", "typed"} {
			if _, ok := entry.InputSchema.Properties[never]; ok {
				t.Errorf("%s has the argument %s", name, never)
			}
		}
	}
	if got := p.tool("request_egress", `{"domain":"b.example.com","session_id":"01K00000000000000000000000"}`); !got.IsError {
		t.Errorf("it asks for a session that there is not: %q", got.text)
	}
	// With an approval for this host, no sandbox could start.
	if got := p.tool("request_egress", `{"domain":"b.example.com:53","namespace":"n"}`); !got.IsError ||
		!strings.Contains(got.text, "port 53") {
		t.Errorf("it asks for a port that no sandbox can have: %q", got.text)
	}
	if g := r.cfg.Approvals.Grants(); len(g) > 0 || len(r.cfg.Approvals.Pending()) != 1 {
		t.Errorf("got %+v", g)
	}
}

// TestOneQuestionForOneName: a look-alike name is asked about in its real form, and another spelling does not ask
// again.
func TestOneQuestionForOneName(t *testing.T) {
	r := newRig(t, nil)
	p := r.hello("2025-11-25", `{}`)
	for _, spelled := range []string{"g\u043e\u043egle.com", "G\u041e\u041eGLE.com.", "xn--ggle-55da.com"} {
		if got := p.tool("request_egress", `{"domain":"`+spelled+`","namespace":"n"}`); got.facts["what"] != "xn--ggle-55da.com" {
			t.Errorf("%s: got %q", spelled, got.text)
		}
	}
	if q := r.cfg.Approvals.Pending(); len(q) != 1 {
		t.Errorf("%d questions", len(q))
	}
}

// TestNoToolAnswers calls each tool with a question's id, and with every word for yes, in every argument that accepts
// them.
func TestNoToolAnswers(t *testing.T) {
	r := newRig(t, nil)
	p := r.hello("2025-11-25", `{}`)
	asked := p.tool("request_egress", `{"domain":"a.example.com","namespace":"n"}`)
	id, _ := asked.facts["approval_id"].(string)
	tools := listTools(t, p)
	if len(tools) != 23 {
		t.Fatalf("%d tools, want 23", len(tools))
	}
	for name, raw := range tools {
		var entry struct {
			InputSchema schemaOf `json:"inputSchema"`
		}
		if err := json.Unmarshal(raw, &entry); err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{id, "sandboxmcp approve " + id, "/v1/approvals/" + id} {
			args, _ := entry.InputSchema.fill(word).(map[string]any)
			delete(args, "namespace") // an invalid namespace would end the call early
			for _, more := range []map[string]any{nil, {"approval_id": id, "approve": true}, {"decision": "allow_time"}, {"requestState": id}} {
				maps.Copy(args, more)
				text, _ := json.Marshal(args)
				meta := fmt.Sprintf(`,"requestState":%q,"inputResponses":{"approval":{"action":"accept","content":{"decision":"allow_time"}}}`, id)
				p.call("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s%s}`, name, text, meta))
			}
		}
	}
	if g := r.cfg.Approvals.Grants(); len(g) > 0 {
		t.Errorf("given is %+v", g)
	}
	for row, err := range r.cfg.Log.Rows(t.Context(), audit.Filter{}) {
		if err != nil || strings.HasSuffix(row.Kind, ".approved") || row.Run == id && strings.HasSuffix(row.Kind, ".denied") &&
			!strings.Contains(string(row.Data), "nobody") {
			t.Errorf("%v, row %s: %s", err, row.Kind, row.Data)
		}
	}
}

// schemaOf is the part of a schema needed to generate arguments.
type schemaOf struct {
	Type       string              `json:"type"`
	Enum       []string            `json:"enum"`
	Minimum    float64             `json:"minimum"`
	Properties map[string]schemaOf `json:"properties"`
	Items      *schemaOf           `json:"items"`
}

// fill generates a value with word wherever it fits.
func (s schemaOf) fill(word string) any {
	switch s.Type {
	case "string":
		if len(s.Enum) > 0 {
			return s.Enum[0]
		}
		return word
	case "boolean":
		return true
	case "number", "integer":
		return max(s.Minimum, 1)
	case "array":
		return []any{s.Items.fill(word)}
	}
	all := map[string]any{}
	for name, one := range s.Properties {
		all[name] = one.fill(word)
	}
	return all
}
