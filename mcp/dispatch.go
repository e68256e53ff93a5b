package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// The library's types are used here, and its server is not: a program that imports that package compiles the schemas of
// five drafts of JSON Schema whenever it starts, which took half of the start of each command, and arguments are checked by
// forms anyhow. It also reads each message five times, knows ids as float64 only, and has one code for all errors of handlers.

// dispatch answers a request by its method.
func (c *conn) dispatch(ctx context.Context, m *message) []byte {
	result, bad := c.s.serve(ctx, m)
	if m.plain {
		return m.withoutProtocol(result, bad)
	}
	if bad != nil {
		bad.text = clip(bad.text, 2000)
		c.s.log.Info("a request failed", "method", clip(m.method, 100), "error", bad.text)
		m.failed = bad.code
		return bad.encode()
	}
	if m.modern {
		c.s.stamp(m, result)
	}
	return m.encoded(result)
}

// serve answers a request by its method.
func (s *Server) serve(ctx context.Context, m *message) (mcp.ResultMetadata, *fault) {
	switch method := mcp.MCPMethod(m.method); method {
	case mcp.MethodToolsCall:
		return s.callTool(ctx, m)
	case mcp.MethodToolsList:
		return s.listTools(m)
	case mcp.MethodResourcesList:
		return s.listRuns(m)
	case mcp.MethodResourcesTemplatesList:
		return s.listTemplates(m)
	case mcp.MethodResourcesRead:
		return s.readResource(m)
	case mcp.MethodPromptsList, mcp.MethodPromptsGet:
		switch {
		case s.cfg.Skills == nil:
		case method == mcp.MethodPromptsList:
			return s.listPrompts(m)
		default:
			return s.getPrompt(m)
		}
	case mcp.MethodServerDiscover, mcp.MethodSubscriptionsListen:
		switch {
		case !m.modern:
			return nil, m.refuse(mcp.METHOD_NOT_FOUND, fmt.Sprintf("%q requires protocol version %s or later", method, mcp.ProtocolVersion20260728))
		case method == mcp.MethodServerDiscover:
			return s.discover(ctx), nil
		}
		return subscribe(m)
	case mcp.MethodInitialize, mcp.MethodPing, mcp.MethodSetLogLevel, "resources/subscribe", "resources/unsubscribe":
		switch {
		case m.modern:
			return nil, m.refuse(mcp.METHOD_NOT_FOUND, fmt.Sprintf("%q was removed in protocol version %s", method, mcp.ProtocolVersion20260728))
		case method == mcp.MethodInitialize:
			return s.initialize(ctx, m)
		case method == mcp.MethodPing:
			return &mcp.Result{}, nil
		case method == mcp.MethodSetLogLevel:
			return setLogLevel(m)
		}
	}
	return nil, m.refuse(mcp.METHOD_NOT_FOUND, fmt.Sprintf("Method %s not found", m.method))
}

// read reads a request's parameters.
func (m *message) read(params any) *fault {
	if m.Params == nil {
		return nil
	}
	if err := json.Unmarshal(m.Params, params); err != nil {
		return m.refuse(mcp.INVALID_PARAMS, fmt.Sprintf("unparsable %s request: %v", m.method, err))
	}
	return nil
}

// whole refuses a page of a list that has one only.
func (m *message) whole() *fault {
	var p mcp.PaginatedParams
	if bad := m.read(&p); bad != nil {
		return bad
	}
	if p.Cursor != "" {
		return m.refuse(mcp.INVALID_PARAMS, "there is no such page: leave out \"cursor\"")
	}
	return nil
}

// stamp adds to a result what those of the 2026-07-28 protocol say: that they are whole, whose they are, and how long they last.
func (s *Server) stamp(m *message, r mcp.ResultMetadata) {
	r.SetResultType(cmp.Or(r.GetResultType(), mcp.ResultTypeComplete))
	if meta := r.EnsureResultMeta(); meta.ServerInfo() == nil {
		meta.SetServerInfo(mcp.Implementation{Name: "sandboxmcp", Title: "sandboxmcp", Version: s.cfg.Version})
	}
	if cached, ok := r.(mcp.CacheHintSetter); ok {
		lasts := listsLast
		if m.method == string(mcp.MethodResourcesList) || s.cfg.Skills != nil && m.method != string(mcp.MethodToolsList) {
			lasts = 0 // the next run is in it, or a skill has changed
		}
		cached.SetCacheHints(lasts.Milliseconds(), mcp.CacheScopePrivate)
	}
}

func (s *Server) initialize(ctx context.Context, m *message) (mcp.ResultMetadata, *fault) {
	var p mcp.InitializeParams
	if bad := m.read(&p); bad != nil {
		return nil, bad
	}
	client := sender{logs: mcp.LoggingLevelWarning}
	client.describe(p.ClientInfo, p.Capabilities)
	m.session.greeted.Store(&client)
	return &mcp.InitializeResult{
		ProtocolVersion: mcp.NegotiateLegacyVersion(p.ProtocolVersion), Capabilities: s.capabilities(), ServerInfo: s.identity(), Instructions: s.instructions(ctx),
	}, nil
}

func (s *Server) discover(ctx context.Context) *mcp.DiscoverResult {
	r := &mcp.DiscoverResult{SupportedVersions: mcp.ValidProtocolVersions, Capabilities: s.capabilities(), Instructions: s.instructions(ctx)}
	r.Capabilities.Extensions = map[string]any{tasksExtension: struct{}{}}
	r.EnsureResultMeta().SetServerInfo(s.identity())
	return r
}

// capabilities returns the capabilities of the server, for both eras.
func (s *Server) capabilities() (c mcp.ServerCapabilities) {
	_ = json.Unmarshal([]byte(`{"tools":{},"resources":{},"logging":{}}`), &c) // their types have no names
	if s.cfg.Skills != nil {
		_ = json.Unmarshal([]byte(`{"prompts":{}}`), &c)
	}
	return c
}

func setLogLevel(m *message) (mcp.ResultMetadata, *fault) {
	var p mcp.SetLevelParams
	if bad := m.read(&p); bad != nil {
		return nil, bad
	}
	if !slices.Contains(strings.Fields("debug info notice warning error critical alert emergency"), string(p.Level)) {
		return nil, m.refuse(mcp.INVALID_PARAMS, fmt.Sprintf("invalid logging level '%s'", p.Level))
	}
	client := m.client()
	client.logs = p.Level
	m.session.greeted.Store(&client)
	return &mcp.Result{}, nil
}

// subscribe acknowledges a subscription to nothing: no list of ours changes by itself.
func subscribe(m *message) (mcp.ResultMetadata, *fault) {
	var p mcp.SubscriptionsListenParams
	if bad := m.read(&p); bad != nil {
		return nil, bad
	}
	m.to.notify(mcp.MethodNotificationSubscriptionsAcknowledged, mcp.NotificationParams{
		Meta: map[string]any{mcp.MetaKeySubscriptionID: m.ID}, AdditionalFields: map[string]any{"notifications": mcp.SubscriptionFilter{}},
	})
	r := &mcp.SubscriptionsListenResult{}
	r.EnsureResultMeta().SetSubscriptionID(m.ID)
	return r, nil
}

// callParams are the parameters of a call of a tool.
type callParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Meta      meta            `json:"_meta"`
	Responses json.RawMessage `json:"inputResponses"` // to what an answer to the call before has asked
	State     string          `json:"requestState"`   // that this answer had
}

// prepare checks the arguments of a call of a tool, once: what is wrong with them is its answer.
func (s *Server) prepare(m *message) {
	if t := s.tool(m.called.Name); t != nil && m.unread == nil {
		m.call, m.why = s.call(t, m)
		m.Params, m.called.Arguments = nil, nil // a call may take long, and has them in another form
	}
}

// ordered are the tools that wait for the calls before them. One that ends a session must not.
var ordered = []string{"execute_code", "bridge_data", "install_package"}

// stand takes a call's place in the lines of the sessions that it runs something in. Models write several calls at once, the second of which
// needs what the first has set, and clients send them without waiting; each is a goroutine of its own, and those start in any order.
func (s *Server) stand(ctx context.Context, m *message) *session.Place {
	if m.call == nil || !slices.Contains(ordered, m.called.Name) {
		return nil
	}
	in := s.tool(m.called.Name).In
	return s.cfg.Pipeline.Stand(ctx, m.call.namespace, in.Text(m.call.args, "session_id"), in.Text(m.call.args, "from_session_id"))
}

// callTool runs the handler of a tool, and makes a result of the answer.
func (s *Server) callTool(ctx context.Context, m *message) (mcp.ResultMetadata, *fault) {
	name := m.called.Name
	switch t := s.tool(name); {
	case m.unread != nil:
		return nil, m.refuse(mcp.INVALID_PARAMS, fmt.Sprintf("unparsable %s request: %v", m.method, m.unread))
	case t == nil:
		return nil, m.refuse(mcp.INVALID_PARAMS, s.noTool(name))
	case m.why != nil:
		return s.result(m, failure(name, m.why)), nil
	default:
		m.call.progress = startProgress(m)
		defer m.call.progress.stop()
		a, err := t.run(ctx, m.call)
		if err != nil {
			a = failure(name, err)
		}
		return s.result(m, a), nil
	}
}

// call is one call of a tool.
type call struct {
	*message
	args      any    // a pointer to what the tool's handler takes
	namespace string // the named one, or that of its session
	walled    bool   // others' are none of its business
	progress  *progress
}

// call checks the arguments of a tool.
func (s *Server) call(t *tool, m *message) (*call, error) {
	args, err := t.In.Check(m.called.Arguments)
	if err != nil {
		return nil, err
	}
	named, own := t.In.Text(args, "namespace"), s.cfg.Namespace
	c := &call{message: m, args: args, namespace: cmp.Or(named, own), walled: named+own != ""}
	if own != "" && c.namespace != own {
		return nil, operation.Wrong("namespace", "this server belongs to the namespace %q: leave it out", own)
	}
	if session := t.In.Text(args, "session_id"); !c.walled && session != "" {
		for _, info := range s.cfg.Pipeline.Sessions("") {
			if info.ID == session {
				c.namespace = info.Namespace
			}
		}
	}
	c.namespace = cmp.Or(c.namespace, "default")
	return c, nil
}

// tool returns the tool of that name; nil is that there is none.
func (s *Server) tool(name string) *tool {
	i := slices.IndexFunc(s.has, func(t tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &s.has[i]
}

// listTools lists the tools for the client that asks, by name.
func (s *Server) listTools(m *message) (mcp.ResultMetadata, *fault) {
	if bad := m.whole(); bad != nil {
		return nil, bad
	}
	list := &mcp.ListToolsResult{Tools: []mcp.Tool{}}
	structured := s.structured(m)
	for _, t := range s.list {
		if s.cfg.ToolsOn && s.whyOff(t.Name) != nil {
			continue
		}
		if !structured {
			t.RawOutputSchema = nil
		}
		list.Tools = append(list.Tools, t)
	}
	return list, nil
}
