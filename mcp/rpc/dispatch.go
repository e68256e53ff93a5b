package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// listTTL is how long clients of the 2026-07-28 protocol may cache lists that do not change while a server runs:
// tools, instructions, the artifacts of a run.
const listTTL = 5 * time.Minute

// This package uses the library's types but not its server. Importing the server compiles five drafts of JSON Schema
// at each start, half of the start time of every command; forms check the arguments here anyhow. It also parses each
// message five times, decodes ids as float64, and has one error code for all handlers.

// dispatch returns the encoded response to a request.
func (c *conn) dispatch(ctx context.Context, m *Message) []byte {
	result, bad := c.s.callMethod(ctx, m)
	if m.Plain {
		return m.encodePlain(result, bad)
	}
	if bad != nil {
		bad.text = safetext.Clip(bad.text, 2000)
		c.s.log.Info("a request failed", "method", safetext.Clip(m.method, 100), "error", bad.text)
		m.faultCode = bad.code
		return bad.encode()
	}
	if m.Modern {
		c.s.addResultMeta(m, result)
	}
	return m.encodeResult(result)
}

// callMethod calls the handler of a request's method.
func (s *Server) callMethod(ctx context.Context, m *Message) (mcp.ResultMetadata, *Fault) {
	switch method := mcp.MCPMethod(m.method); method {
	case mcp.MethodToolsCall:
		return s.callTool(ctx, m)
	case mcp.MethodServerDiscover, mcp.MethodSubscriptionsListen:
		switch {
		case !m.Modern:
			return nil, m.Refuse(mcp.METHOD_NOT_FOUND, fmt.Sprintf("%q requires protocol version %s or later", method, mcp.ProtocolVersion20260728))
		case method == mcp.MethodServerDiscover:
			return s.discover(ctx), nil
		}
		return subscribe(m)
	case mcp.MethodInitialize, mcp.MethodPing, mcp.MethodSetLogLevel, "resources/subscribe", "resources/unsubscribe":
		switch {
		case m.Modern:
			return nil, m.Refuse(mcp.METHOD_NOT_FOUND, fmt.Sprintf("%q was removed in protocol version %s", method, mcp.ProtocolVersion20260728))
		case method == mcp.MethodInitialize:
			return s.initialize(ctx, m)
		case method == mcp.MethodPing:
			return &mcp.Result{}, nil
		case method == mcp.MethodSetLogLevel:
			return setLogLevel(m)
		}
	default:
		if answer := s.cfg.Methods[method]; answer != nil {
			return answer(m)
		}
	}
	return nil, m.Refuse(mcp.METHOD_NOT_FOUND, fmt.Sprintf("Method %s not found", m.method))
}

// ReadParams decodes a request's parameters.
func (m *Message) ReadParams(params any) *Fault {
	if m.Params == nil {
		return nil
	}
	if err := json.Unmarshal(m.Params, params); err != nil {
		return m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("unparsable %s request: %v", m.method, err))
	}
	return nil
}

// RefusePage refuses a cursor: each list has a single page.
func (m *Message) RefusePage() *Fault {
	var p mcp.PaginatedParams
	if bad := m.ReadParams(&p); bad != nil {
		return bad
	}
	if p.Cursor != "" {
		return m.Refuse(mcp.INVALID_PARAMS, "unknown page: omit \"cursor\"")
	}
	return nil
}

// addResultMeta adds the fields that results of the 2026-07-28 protocol need: completeness, server and cache
// lifetime.
func (s *Server) addResultMeta(m *Message, r mcp.ResultMetadata) {
	r.SetResultType(cmp.Or(r.GetResultType(), mcp.ResultTypeComplete))
	if meta := r.EnsureResultMeta(); meta.ServerInfo() == nil {
		meta.SetServerInfo(mcp.Implementation{Name: "sandboxmcp", Title: "sandboxmcp", Version: s.cfg.Version})
	}
	if cached, ok := r.(mcp.CacheHintSetter); ok {
		lasts := listTTL
		if m.method == string(mcp.MethodResourcesList) || s.hasPrompts() && m.method != string(mcp.MethodToolsList) {
			lasts = 0 // a run adds resources, and skills may change
		}
		cached.SetCacheHints(lasts.Milliseconds(), mcp.CacheScopePrivate)
	}
}

func (s *Server) initialize(ctx context.Context, m *Message) (mcp.ResultMetadata, *Fault) {
	var p mcp.InitializeParams
	if bad := m.ReadParams(&p); bad != nil {
		return nil, bad
	}
	client := clientInfo{logs: mcp.LoggingLevelWarning}
	client.describe(p.ClientInfo, p.Capabilities)
	m.session.greeted.Store(&client)
	return &mcp.InitializeResult{
		ProtocolVersion: mcp.NegotiateLegacyVersion(p.ProtocolVersion), Capabilities: s.capabilities(), ServerInfo: s.implementation(),
		Instructions: s.cfg.Instructions(ctx),
	}, nil
}

func (s *Server) discover(ctx context.Context) *mcp.DiscoverResult {
	r := &mcp.DiscoverResult{SupportedVersions: mcp.ValidProtocolVersions, Capabilities: s.capabilities(),
		Instructions: s.cfg.Instructions(ctx)}
	r.Capabilities.Extensions = map[string]any{tasksExtension: struct{}{}}
	r.EnsureResultMeta().SetServerInfo(s.implementation())
	return r
}

// hasPrompts reports whether the server has prompts. Prompts may change, and the resources of skills with them.
func (s *Server) hasPrompts() bool { return s.cfg.Methods[mcp.MethodPromptsList] != nil }

// capabilities returns the server's capabilities, in both eras of the protocol.
func (s *Server) capabilities() (c mcp.ServerCapabilities) {
	_ = json.Unmarshal([]byte(`{"tools":{},"resources":{},"logging":{}}`), &c) // the library's types of these fields are unnamed
	if s.hasPrompts() {
		_ = json.Unmarshal([]byte(`{"prompts":{}}`), &c)
	}
	return c
}

func setLogLevel(m *Message) (mcp.ResultMetadata, *Fault) {
	var p mcp.SetLevelParams
	if bad := m.ReadParams(&p); bad != nil {
		return nil, bad
	}
	if !slices.Contains(strings.Fields("debug info notice warning error critical alert emergency"), string(p.Level)) {
		return nil, m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("invalid logging level '%s'", p.Level))
	}
	client := m.Client()
	client.logs = p.Level
	m.session.greeted.Store(&client)
	return &mcp.Result{}, nil
}

// subscribe acknowledges an empty subscription: the lists of this server do not change by themselves.
func subscribe(m *Message) (mcp.ResultMetadata, *Fault) {
	var p mcp.SubscriptionsListenParams
	if bad := m.ReadParams(&p); bad != nil {
		return nil, bad
	}
	m.stream.notify(mcp.MethodNotificationSubscriptionsAcknowledged, mcp.NotificationParams{
		Meta: map[string]any{mcp.MetaKeySubscriptionID: m.ID}, AdditionalFields: map[string]any{"notifications": mcp.SubscriptionFilter{}},
	})
	r := &mcp.SubscriptionsListenResult{}
	r.EnsureResultMeta().SetSubscriptionID(m.ID)
	return r, nil
}

// callParams are the parameters of tools/call.
type callParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Meta      meta            `json:"_meta"`
	Responses json.RawMessage `json:"inputResponses"` // to the questions in the response to the call before
	State     string          `json:"requestState"`   // from that response
}

// prepareCall checks the arguments of a tool call. A failed check becomes the response.
func (s *Server) prepareCall(ctx context.Context, m *Message) context.Context {
	if m.Called.Name == "" || m.paramsErr != nil || s.cfg.WhyNoTool(m.Called.Name) != "" {
		return ctx
	}
	ctx, m.call = s.cfg.Prepare(ctx, m)
	m.Params, m.Called.Arguments = nil, nil // a call may run for long, and has its arguments in decoded form
	return ctx
}

// callTool runs a prepared tool call.
func (s *Server) callTool(ctx context.Context, m *Message) (mcp.ResultMetadata, *Fault) {
	switch {
	case m.paramsErr != nil:
		return nil, m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("unparsable %s request: %v", m.method, m.paramsErr))
	case m.call.Run == nil:
		return nil, m.Refuse(mcp.INVALID_PARAMS, s.cfg.WhyNoTool(m.Called.Name))
	}
	m.Progress = startProgress(m)
	defer m.Progress.stop()
	return m.call.Run(ctx), nil
}
