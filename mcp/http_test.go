package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/mcp/rpc"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// httpRig serves clients with tokens over HTTP.
type httpRig struct {
	*rig
	h      *rpc.HTTP
	url    string
	tokens *identity.Tokens
}

func newHTTPRig(t *testing.T, change func(*Config)) *httpRig {
	r := newRig(t, change)
	h := NewHTTP(r.cfg)
	tokens := identity.OpenTokens(t.TempDir())
	server := httptest.NewServer(identity.New(identity.Config{Tokens: tokens, Rate: 1e6}).Middleware(h))
	t.Cleanup(func() {
		h.Close()
		server.CloseClientConnections() // streams that tests have left open
		server.Close()
	})
	return &httpRig{r, h, server.URL, tokens}
}

// token creates a token.
func (r *httpRig) token(name string, kind identity.Kind, namespaces ...string) string {
	r.t.Helper()
	token, _, err := r.tokens.Create(r.t.Context(), identity.Token{Name: name, Kind: kind, Namespaces: identity.ParseNamespaces(namespaces)},
		func(identity.Token) error { return nil })
	if err != nil {
		r.t.Fatal(err)
	}
	return token
}

// visitor is a client that sends single requests.
type visitor struct {
	r              *httpRig
	token, session string
	path           string
}

func (r *httpRig) visitor(token string) *visitor { return &visitor{r: r, token: token, path: "/mcp"} }

// send sends a message with headers in the form "Name: value", which replace the default ones.
func (v *visitor) send(ctx context.Context, body string, headers ...string) *http.Response {
	v.r.t.Helper()
	return v.do(ctx, http.MethodPost, body, headers...)
}

func (v *visitor) do(ctx context.Context, method, body string, headers ...string) *http.Response {
	v.r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, v.r.url+v.path, strings.NewReader(body))
	if err != nil {
		v.r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+v.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if v.session != "" {
		req.Header.Set("Mcp-Session-Id", v.session)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Del(name)
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		v.r.t.Fatal(err)
	}
	v.r.t.Cleanup(func() { res.Body.Close() })
	return res
}

const httpGreeting = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"t","version":"1"}}}`

func (v *visitor) initialize(capabilities string) *visitor {
	v.r.t.Helper()
	res := v.send(v.r.t.Context(), fmt.Sprintf(httpGreeting, capabilities))
	if v.session = res.Header.Get("Mcp-Session-Id"); v.session == "" || res.StatusCode != http.StatusOK {
		v.r.t.Fatalf("initialize: %s, %s", res.Status, bodyOf(v.r.t, res))
	}
	v.send(v.r.t.Context(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return v
}

// tool calls a tool and returns the text of the answer.
func (v *visitor) tool(name, arguments string) string {
	v.r.t.Helper()
	return v.answer(v.send(v.r.t.Context(), toolCall(1, name, arguments)))
}

func toolCall(id int, name, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, name, arguments)
}

func (v *visitor) answer(res *http.Response) string {
	v.r.t.Helper()
	body := bodyOf(v.r.t, res)
	var m reply
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		v.r.t.Fatalf("%s: %v, %s", res.Status, err, body)
	}
	return (&peer{t: v.r.t}).read1(m).text
}

func bodyOf(t testing.TB, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// TestHTTPRefused sends requests that are refused before anything runs.
func TestHTTPRefused(t *testing.T) {
	r := newHTTPRig(t, nil)
	token := r.token("ci", identity.Agent, "one")
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	call := toolCall(1, "execute_code", `{"language":"shell","code":"echo ran"}`)
	meta := fmt.Sprintf(modern, `{}`)
	newer := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":{"language":"shell","code":"echo ran"},` + meta + `}}`
	const version = "Mcp-Protocol-Version: 2026-07-28"
	const nowhere = `"message":"unknown path`
	session := r.visitor(token).initialize(`{}`).session
	for _, test := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		want                     string
	}{
		{"no token", "POST", "/mcp", call, []string{"Authorization: "}, 401, "token is required"},
		{"a token that is none", "POST", "/mcp", call, []string{"Authorization: Bearer x"}, 401, "not valid"},
		{"another namespace", "POST", "/mcp/two", call, nil, 403, "namespace"},
		{"a namespace with a path", "POST", "/mcp/one/x", call, nil, 404, nowhere},
		{"an empty namespace", "POST", "/mcp/", call, nil, 404, nowhere},
		{"a namespace behind two slashes", "POST", "/mcp//one", call, nil, 404, nowhere},
		{"a path with dots", "POST", "/x/../mcp", call, nil, 404, nowhere},
		{"another path", "GET", "/", "", nil, 404, nowhere},
		{"another path without a token", "GET", "//mcp", "", []string{"Authorization: "}, 401, "token is required"},
		{"a stream", "GET", "/mcp", "", nil, 405, "GET"},
		{"another method", "PUT", "/mcp", ping, nil, 405, ""},
		{"no type", "POST", "/mcp", call, []string{"Content-Type: text/plain"}, 415, "application/json"},
		{"a form's type", "POST", "/mcp", call, []string{"Content-Type: "}, 415, ""},
		{"no events accepted", "POST", "/mcp", call, []string{"Accept: application/json"}, 406, "text/event-stream"},
		{"nothing accepted", "POST", "/mcp", call, []string{"Accept: "}, 406, ""},
		{"no JSON", "POST", "/mcp", "hello", nil, 400, "-32700"},
		{"nothing", "POST", "/mcp", "", nil, 400, "-32700"},
		{"a batch", "POST", "/mcp", "[" + ping + "]", nil, 400, "batches"},
		{"no session", "POST", "/mcp", call, nil, 400, "_meta"},
		{"no such session", "POST", "/mcp", call, []string{"Mcp-Session-Id: x"}, 404, "initialize"},
		{"an answer to nobody", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 400, "Mcp-Session-Id"},
		{"a version of the past", "POST", "/mcp", call, []string{"Mcp-Session-Id: " + session, "Mcp-Protocol-Version: 1900-01-01"}, 400,
			"-32022"},
		{"initialize without a version", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, nil, 400,
			"protocolVersion"},
		{"no session to end", "DELETE", "/mcp", "", nil, 400, ""},
		{"newer, without headers", "POST", "/mcp", newer, nil, 400, "-32020"},
		{"newer, without a method", "POST", "/mcp", newer, []string{version, "Mcp-Name: execute_code"}, 400, "-32020"},
		{"newer, as another tool", "POST", "/mcp", newer, []string{version, "Mcp-Method: tools/call", "Mcp-Name: sandbox_stats"}, 400, "-32020"},
		{"newer in the header only", "POST", "/mcp", call, []string{version, "Mcp-Session-Id: " + session}, 400, "-32020"},
		{"newer, of no such method", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"no/such","params":{` + meta + `}}`,
			[]string{version, "Mcp-Method: no/such"}, 404, "-32601"},
		{"newer, of no such tool", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",` + meta + `}}`,
			[]string{version, "Mcp-Method: tools/call", "Mcp-Name: x"}, 400, "-32602"},
		{"a stream by POST", "POST", "/sse", "", nil, 405, "/mcp"},
		{"a message to no stream", "POST", "/message?sessionId=x", ping, nil, 404, ""},
		{"a message to a session", "POST", "/message?sessionId=" + session, ping, nil, 404, ""},
		{"too much beside the arguments", "POST", "/mcp", strings.Replace(newer, `"arguments"`, `"inputResponses":{"a":"`+strings.Repeat("x",
			64<<10)+`"},"arguments"`, 1),
			[]string{version, "Mcp-Method: tools/call", "Mcp-Name: execute_code"}, 400, "without its arguments"},
		{"too long", "POST", "/mcp", `{"x":"` + strings.Repeat("x", door.MaxBody) + `"}`, nil, 413, "the body is too large"},
	} {
		v := r.visitor(token)
		v.path = test.path
		res := v.do(t.Context(), test.method, test.body, test.headers...)
		body := bodyOf(t, res)
		if res.StatusCode != test.status || !strings.Contains(body, test.want) || strings.Contains(body, "ran\\n") {
			t.Errorf("%s: got %s, %s", test.name, res.Status, body)
		}
	}
	for range 255 { // none of these requests has taken the place of a session
		r.visitor(token).initialize(`{}`)
	}
	for row, err := range r.cfg.Log.Rows(t.Context(), audit.Filter{}) {
		t.Errorf("something ran: %+v, %v", row, err)
	}
}

// TestHTTPWalls: an identity can't reach the sessions of another one, or of another namespace.
func TestHTTPWalls(t *testing.T) {
	r := newHTTPRig(t, nil)
	one, two := r.visitor(r.token("one", identity.Agent, "one", "both")), r.visitor(r.token("two", identity.Agent, "two", "both"))
	person := r.visitor(r.token("boss", identity.Person, "*")).initialize(`{}`)
	one.initialize(`{}`)
	two.initialize(`{}`)
	made := one.tool("create_session", `{"language":"shell"}`)
	mine := regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}`).FindString(made)
	if mine == "" {
		t.Fatalf("no session: %q", made)
	}
	contains(t, one.tool("execute_code", fmt.Sprintf(`{"session_id":%q,"code":"echo theirs > f; cat f"}`, mine)), "theirs")

	stolen := *two
	stolen.session = one.session
	if res := stolen.send(t.Context(), toolCall(1, "execute_code", fmt.Sprintf(`{"session_id":%q,"code":"cat f"}`, mine))); res.StatusCode != http.StatusNotFound {
		t.Errorf("another's session: got %s", res.Status)
	}
	if res := stolen.do(t.Context(), http.MethodDelete, ""); res.StatusCode != http.StatusNotFound {
		t.Errorf("the end of another's session: got %s", res.Status)
	}
	elsewhere := *one
	elsewhere.path = "/mcp/both"
	if res := elsewhere.send(t.Context(), toolCall(1, "sandbox_stats", `{}`)); res.StatusCode != http.StatusNotFound {
		t.Errorf("a session of another namespace: got %s", res.Status)
	}
	for _, arguments := range []string{`{"session_id":%q,"code":"cat f"}`, `{"namespace":"one","session_id":%q,"code":"cat f"}`} {
		arguments = fmt.Sprintf(arguments, mine)
		if got := two.tool("execute_code", arguments); strings.Contains(got, "theirs") {
			t.Errorf("%s: got %q", arguments, got)
		}
	}
	if got := two.tool("inspect_state", `{}`); strings.Contains(got, mine) {
		t.Errorf("another namespace's sessions are listed: %q", got)
	}
	if got := two.tool("audit_execution", `{}`); strings.Contains(got, "theirs") || strings.Contains(got, "token:one") {
		t.Errorf("another namespace's rows are told: %q", got)
	}
	contains(t, person.tool("inspect_state", `{}`), mine)
	contains(t, person.tool("execute_code", fmt.Sprintf(`{"namespace":"one","session_id":%q,"code":"cat f"}`, mine)), "theirs")

	identities := map[string]int{}
	for row, err := range r.cfg.Log.Rows(t.Context(), audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		var data struct{ Identity string }
		if json.Unmarshal(row.Data, &data) != nil || data.Identity == "" {
			t.Errorf("a row has no identity: %s", row.Data)
		}
		identities[data.Identity]++
	}
	if identities["token:one"] == 0 || identities["token:two"] == 0 || identities["token:boss"] == 0 || len(identities) != 3 {
		t.Errorf("rows are of %v", identities)
	}
}

// TestHTTPSessions: sessions are limited, and end by DELETE.
func TestHTTPSessions(t *testing.T) {
	r := newHTTPRig(t, nil)
	token := r.token("ci", identity.Agent, "one")
	var all []*visitor
	for range 256 {
		all = append(all, r.visitor(token).initialize(`{}`))
	}
	if res := r.visitor(token).send(t.Context(), fmt.Sprintf(httpGreeting, `{}`)); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("one session too many: got %s", res.Status)
	}
	r.visitor(r.token("other", identity.Agent, "one")).initialize(`{}`)
	if res := all[0].do(t.Context(), http.MethodDelete, ""); res.StatusCode != http.StatusNoContent {
		t.Errorf("the end of a session: got %s", res.Status)
	}
	if res := all[0].send(t.Context(), toolCall(1, "sandbox_stats", `{}`)); res.StatusCode != http.StatusNotFound {
		t.Errorf("an ended session: got %s", res.Status)
	}
	r.visitor(token).initialize(`{}`)
	r.h.Close()
	if res := r.visitor(token).send(t.Context(), fmt.Sprintf(httpGreeting, `{}`)); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a session of a server that has ended: got %s", res.Status)
	}
}

// TestHTTPCancel: clients disconnect and cancel while code runs.
func TestHTTPCancel(t *testing.T) {
	r := newHTTPRig(t, nil)
	newer := func(v *visitor, ctx context.Context, code string) {
		v.send(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":{"language":"shell","code":%q},%s}}`, code, fmt.Sprintf(modern, `{}`)),
			"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: execute_code")
	}
	older := func(v *visitor, ctx context.Context, code string) {
		v.send(ctx, toolCall(1, "execute_code", fmt.Sprintf(`{"language":"shell","code":%q}`, code)))
	}
	for _, test := range []struct {
		name   string
		start  func(v *visitor, ctx context.Context, code string)
		end    func(v *visitor, leave func())
		goesOn bool
	}{
		{"a newer client goes away", newer, func(_ *visitor, leave func()) { leave() }, false},
		{"an older client goes away", older, func(_ *visitor, leave func()) { leave() }, true},
		{"an older client cancels", older, func(v *visitor, _ func()) {
			v.send(t.Context(), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		}, false},
		{"an older client ends its session", older, func(v *visitor, _ func()) { v.do(t.Context(), http.MethodDelete, "") }, false},
	} {
		v := r.visitor(r.token(strings.ReplaceAll(test.name, " ", "-"), identity.Agent, "one"))
		v.initialize(`{}`)
		if !test.goesOn && test.name[:7] == "a newer" {
			v.session = ""
		}
		code, alive, wake := sleeper(t)
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); test.start(v, ctx, code) }()
		hosttest.Until(t, test.name+": it runs", alive)
		test.end(v, leave)
		if test.goesOn {
			<-done
			r.visitor(v.token).initialize(`{}`) // takes much longer than a cancellation
			if !alive() {
				t.Errorf("%s: it is cancelled", test.name)
			}
			wake()
		}
		hosttest.Until(t, test.name+": it is gone", func() bool { return !alive() })
		leave()
		<-done
	}
}

// TestHTTPRevoked revokes a token while its calls run. Calls of another token of the namespace continue.
func TestHTTPRevoked(t *testing.T) {
	r := newHTTPRig(t, nil)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":{"language":"shell","code":%q%s}%s}}`
	var all sync.WaitGroup
	start := func(name, token, arguments, more string, headers ...string) (alive func() bool, wake func()) {
		code, alive, wake := sleeper(t)
		v := r.visitor(token).initialize(`{}`)
		if len(headers) > 0 {
			v.session = ""
		}
		ctx, leave := context.WithCancel(t.Context())
		t.Cleanup(leave)
		all.Go(func() { v.send(ctx, fmt.Sprintf(call, code, arguments, more), headers...) })
		hosttest.Until(t, name+" runs", alive)
		if name == "a request whose client went away" {
			leave()
		}
		return alive, wake
	}
	ci, other := r.token("ci", identity.Agent, "one"), r.token("other", identity.Agent, "one")
	asTask, newer := ","+fmt.Sprintf(modern, knowsTasks), []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: execute_code"}
	running := map[string]func() bool{}
	for name, test := range map[string]struct {
		arguments, more string
		headers         []string
	}{
		"a request":                        {},
		"a request whose client went away": {},
		"a task":                           {more: asTask, headers: newer},
		"a run in the background":          {arguments: `,"background":true`},
	} {
		running[name], _ = start(name, ci, test.arguments, test.more, test.headers...)
	}
	theirs, wake := start("another's task", other, "", asTask, newer...)
	if _, err := r.tokens.Revoke(t.Context(), "ci", func(identity.Token) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for name, alive := range running {
		hosttest.Until(t, name+" is gone", func() bool { return !alive() })
	}
	if !theirs() {
		t.Error("another token's task is gone, too")
	}
	wake()
	all.Wait()
	for row, err := range r.cfg.Log.Rows(t.Context(), audit.Filter{}) {
		if err != nil || !strings.Contains(string(row.Data), `"identity":"token:`) {
			t.Errorf("a row has no identity: %s, %v", row.Data, err)
		}
	}
}

// TestHTTPEvents: the response to a call also carries its progress and the questions to its user.
func TestHTTPEvents(t *testing.T) {
	r := newHTTPRig(t, nil)
	v := r.visitor(r.token("boss", identity.Person, "one")).initialize(`{"elicitation":{}}`)
	res := v.send(t.Context(), `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"execute_code","_meta":{"progressToken":"p"},"arguments":{"language":"shell","code":"echo line; sleep 0.3"}}}`)
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("got %s", got)
	}
	events := eventsOf(t, res)
	if first, last := events[0], events[len(events)-1]; first.Method != "notifications/progress" || string(last.ID) != "5" || last.Result == nil {
		t.Errorf("got %+v", events)
	}

	ask := toolCall(6, "request_egress", `{"domain":"example.com","reason":"to test"}`)
	res = v.send(t.Context(), ask)
	b := bufio.NewReader(res.Body)
	q := nextEvent(t, b)
	message, _ := readDialog(t, q)
	contains(t, message, "example.com")
	if res := v.send(t.Context(), fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"decision":"allow_time"}}}`, q.ID)); res.StatusCode != http.StatusAccepted {
		t.Errorf("an answer to a dialog: %s", res.Status)
	}
	contains(t, (&peer{t: t}).read1(nextEvent(t, b)).text, "approved")
	if grants := r.cfg.Approvals.Grants(); len(grants) != 1 || grants[0].Answer.User != "token:boss" && !strings.Contains(grants[0].Answer.User, "boss") {
		t.Errorf("got %+v", grants)
	}

	// An agent's client could answer for itself.
	agent := r.visitor(r.token("agent", identity.Agent, "one")).initialize(`{"elicitation":{}}`)
	contains(t, agent.tool("request_egress", `{"domain":"example.org","reason":"to test"}`), "pending", "sandboxmcp egress approve")
	if n := len(r.cfg.Approvals.Grants()); n != 1 {
		t.Errorf("%d approvals", n)
	}
}

func eventsOf(t *testing.T, res *http.Response) (all []reply) {
	t.Helper()
	b := bufio.NewReader(res.Body)
	for {
		m := nextEvent(t, b)
		if all = append(all, m); m.Result != nil || m.Error != nil {
			return all
		}
	}
}

// nextEvent reads the next event with a message.
func nextEvent(t *testing.T, b *bufio.Reader) (m reply) {
	t.Helper()
	for {
		line, err := b.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := strings.CutPrefix(line, "data: {"); ok {
			if err := json.Unmarshal([]byte("{"+data), &m); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			return m
		}
	}
}

// TestHTTPClients: the library's clients of all transports and protocols work concurrently.
func TestHTTPClients(t *testing.T) {
	r := newHTTPRig(t, nil)
	token, endpoints := r.token("ci", identity.Agent, "one"), make(chan string, 2)
	header := map[string]string{"Authorization": "Bearer " + token}
	var all sync.WaitGroup
	for i, connect := range []func() (*client.Client, error){
		func() (*client.Client, error) {
			return client.NewStreamableHttpClient(r.url+"/mcp", transport.WithHTTPHeaders(header))
		},
		func() (*client.Client, error) {
			return client.NewStreamableHttpClient(r.url+"/mcp/one", transport.WithHTTPHeaders(header))
		},
		func() (*client.Client, error) {
			return client.NewSSEMCPClient(r.url+"/sse", transport.WithHeaders(header))
		},
		func() (*client.Client, error) {
			return client.NewSSEMCPClient(r.url+"/sse/one", transport.WithHeaders(header))
		},
	} {
		all.Go(func() {
			c, err := connect()
			if err != nil {
				t.Error(err)
				return
			}
			if sse, ok := c.GetTransport().(*transport.SSE); ok {
				defer func() { endpoints <- sse.GetEndpoint().RequestURI() }()
			}
			defer c.Close()
			if err := c.Start(t.Context()); err != nil {
				t.Error(i, err)
				return
			}
			hello := mcp.InitializeRequest{}
			hello.Params.ProtocolVersion = []string{"2025-11-25", "2025-06-18", "2024-11-05", "2025-03-26"}[i]
			hello.Params.ClientInfo = mcp.Implementation{Name: "t", Version: "1"}
			if _, err := c.Initialize(t.Context(), hello); err != nil {
				t.Error(i, err)
				return
			}
			list, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
			if err != nil || len(list.Tools) != 23 {
				t.Errorf("client %d: %d tools, %v", i, len(list.Tools), err)
			}
			for n := range 5 {
				call := mcp.CallToolRequest{}
				call.Params.Name = "execute_code"
				call.Params.Arguments = map[string]any{"language": "shell", "code": fmt.Sprintf("echo $((%d * 100 + %d))", i, n)}
				res, err := c.CallTool(t.Context(), call)
				if err != nil || res.IsError {
					t.Errorf("client %d: %v, %+v", i, err, res)
					return
				}
				contains(t, res.Content[0].(mcp.TextContent).Text, fmt.Sprint(i*100+n))
			}
		})
	}
	all.Wait()
	for range 2 {
		v := r.visitor(token)
		v.path = <-endpoints
		hosttest.Until(t, "the stream ends with its client", func() bool {
			return v.send(t.Context(), toolCall(1, "sandbox_stats", `{}`)).StatusCode == http.StatusNotFound
		})
	}
}

// TestHTTPStateless: two clients of one identity send the same ids concurrently, in the protocol 2026-07-28.
func TestHTTPStateless(t *testing.T) {
	r := newHTTPRig(t, nil)
	v := r.visitor(r.token("ci", identity.Agent, "one"))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			res := v.send(t.Context(), fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"execute_code","arguments":{"language":"shell","code":"sleep 0.1; echo n%d"},%s}}`, i, fmt.Sprintf(modern, `{}`)),
				"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: execute_code")
			if res.StatusCode != http.StatusOK || res.Header.Get("Mcp-Session-Id") != "" {
				t.Errorf("got %s", res.Status)
			}
			contains(t, bodyOf(t, res), fmt.Sprintf("n%d", i))
		})
	}
	all.Wait()
}

// TestHTTPDrain: calls of both transports are running when the server shuts down.
func TestHTTPDrain(t *testing.T) {
	r := newHTTPRig(t, nil)
	v := r.visitor(r.token("ci", identity.Agent, "one")).initialize(`{}`)
	old := *v
	old.path, old.session = "/sse", ""
	res := old.do(t.Context(), http.MethodGet, "")
	stream := bufio.NewReader(res.Body)
	var endpoint string
	for !strings.HasPrefix(endpoint, "data: ") {
		var err error
		if endpoint, err = stream.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	old.path = strings.TrimSpace(strings.TrimPrefix(endpoint, "data: "))
	old.send(t.Context(), fmt.Sprintf(httpGreeting, `{}`))
	nextEvent(t, stream)
	code, alive, wake := sleeper(t)
	arguments := fmt.Sprintf(`{"language":"shell","code":%q}`, code+"; echo over")
	old.send(t.Context(), toolCall(1, "execute_code", arguments))
	hosttest.Until(t, "it runs", alive)
	r.h.Drain()
	for _, late := range []*visitor{v, &old} {
		if res := late.send(t.Context(), toolCall(2, "sandbox_stats", `{}`)); res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: a request that came late: %s", late.path, res.Status)
		}
	}
	wake()
	contains(t, (&peer{t: t}).read1(nextEvent(t, stream)).text, "over")
	if rest, err := io.ReadAll(stream); err != nil || strings.Contains(string(rest), "data") {
		t.Errorf("after the answer: %q, %v", rest, err)
	}
}

// callOperation calls an operation without the protocol.
func (r *httpRig) callOperation(token, name, arguments string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/v1/tools/"+name, strings.NewReader(arguments))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// TestOperationsWithoutProtocol: each tool answers JSON at /v1/tools, in the caller's namespaces only.
func TestOperationsWithoutProtocol(t *testing.T) {
	r := newHTTPRig(t, nil)
	one, other, two := r.token("one", identity.Agent, "one"), r.token("other", identity.Agent, "other"), r.token("two", identity.Agent, "one", "more")
	boss := r.token("boss", identity.Person, "*")
	status, body := r.callOperation(one, "create_session", `{"language":"shell"}`)
	var made struct {
		Result struct {
			ID        string `json:"session_id"`
			Namespace string
		}
	}
	if err := json.Unmarshal([]byte(body), &made); err != nil || status != http.StatusOK || made.Result.Namespace != "one" || made.Result.ID == "" {
		t.Fatalf("got %d %s, %v", status, body, err)
	}
	mine := fmt.Sprintf(`{"session_id":%q,"code":"echo hi"}`, made.Result.ID)
	for _, test := range []struct {
		token, name, arguments string
		status                 int
		want                   string
	}{
		{one, "execute_code", mine, 200, `"stdout":"hi\n"`},
		{two, "execute_code", mine, 200, `"stdout":"hi\n"`},
		{boss, "execute_code", mine, 200, `"stdout":"hi\n"`},
		{one, "execute_code", `{"code":"exit 3","language":"shell"}`, 200, `"exit_code":3`},
		{one, "sandbox_stats", ``, 200, `"uptime_seconds"`},
		{other, "execute_code", mine, 422, `"error":"`},
		{other, "execute_code", `{"code":"1","namespace":"one"}`, 400, "this server is for namespace"},
		{two, "execute_code?namespace=more", mine, 422, `"error":"`},
		{one, "execute_code?namespace=more", mine, 403, "do not allow this namespace"},
		{boss, "execute_code?namespace=", mine, 400, "the namespace in the query is empty"},
		{one, "execute_code?namespace=", mine, 400, "the namespace in the query is empty"},
		{one, "execute_code", `{"kode":"1"}`, 400, `did you mean \"code\"`},
		{one, "execute_code", `{"code":`, 400, "not JSON"},
		{one, "execute_kode", `{}`, 404, "did you mean"},
		{one, "..%2fsessions", `{}`, 404, `"error"`},
		{"", "sandbox_stats", ``, 401, ""},
	} {
		if status, body := r.callOperation(test.token, test.name, test.arguments); status != test.status || !strings.Contains(body, test.want) || !json.Valid([]byte(body)) {
			t.Errorf("%s %s: got %d %s, want %d %s", test.name, test.arguments, status, body, test.status, test.want)
		}
	}
	for _, o := range Operations() {
		if status, body := r.callOperation(one, o.Name, `{"no_such":1}`); status != http.StatusBadRequest || !strings.Contains(body, "no_such") {
			t.Errorf("%s: got %d %s", o.Name, status, body)
		}
		compile(t, o.Name, o.Out)
	}
}
