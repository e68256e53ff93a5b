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

// listsLast is how long clients of the 2026-07-28 protocol may keep what does not change while a server runs: its
// tools, instructions, and what a run has left.
const listsLast = 5 * time.Minute

// The library's types are used here, and its server is not: a program that imports that package compiles the schemas of
// five drafts of JSON Schema whenever it starts, which took half of the start of each command, and arguments are
// checked by forms anyhow. It also reads each message five times, knows ids as float64 only, and has one code for all
// errors of handlers.

// dispatch answers a request by its method.
func (c *conn) dispatch(ctx context.Context, m *Message) []byte {
	result, bad := c.s.serve(ctx, m)
	if m.Plain {
		return m.withoutProtocol(result, bad)
	}
	if bad != nil {
		bad.text = safetext.Clip(bad.text, 2000)
		c.s.log.Info("a request failed", "method", safetext.Clip(m.method, 100), "error", bad.text)
		m.failed = bad.code
		return bad.encode()
	}
	if m.Modern {
		c.s.stamp(m, result)
	}
	return m.encoded(result)
}

// serve answers a request by its method.
func (s *Server) serve(ctx context.Context, m *Message) (mcp.ResultMetadata, *Fault) {
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

// ReadParams reads a request's parameters.
func (m *Message) ReadParams(params any) *Fault {
	if m.Params == nil {
		return nil
	}
	if err := json.Unmarshal(m.Params, params); err != nil {
		return m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("unparsable %s request: %v", m.method, err))
	}
	return nil
}

// RefusePage refuses a page of a list that has one only.
func (m *Message) RefusePage() *Fault {
	var p mcp.PaginatedParams
	if bad := m.ReadParams(&p); bad != nil {
		return bad
	}
	if p.Cursor != "" {
		return m.Refuse(mcp.INVALID_PARAMS, "there is no such page: leave out \"cursor\"")
	}
	return nil
}

// stamp adds to a result what those of the 2026-07-28 protocol say: that they are whole, whose they are, and how long
// they last.
func (s *Server) stamp(m *Message, r mcp.ResultMetadata) {
	r.SetResultType(cmp.Or(r.GetResultType(), mcp.ResultTypeComplete))
	if meta := r.EnsureResultMeta(); meta.ServerInfo() == nil {
		meta.SetServerInfo(mcp.Implementation{Name: "sandboxmcp", Title: "sandboxmcp", Version: s.cfg.Version})
	}
	if cached, ok := r.(mcp.CacheHintSetter); ok {
		lasts := listsLast
		if m.method == string(mcp.MethodResourcesList) || s.hasPrompts() && m.method != string(mcp.MethodToolsList) {
			lasts = 0 // the next run is in it, or a skill has changed
		}
		cached.SetCacheHints(lasts.Milliseconds(), mcp.CacheScopePrivate)
	}
}

func (s *Server) initialize(ctx context.Context, m *Message) (mcp.ResultMetadata, *Fault) {
	var p mcp.InitializeParams
	if bad := m.ReadParams(&p); bad != nil {
		return nil, bad
	}
	client := sender{logs: mcp.LoggingLevelWarning}
	client.describe(p.ClientInfo, p.Capabilities)
	m.session.greeted.Store(&client)
	return &mcp.InitializeResult{
		ProtocolVersion: mcp.NegotiateLegacyVersion(p.ProtocolVersion), Capabilities: s.capabilities(), ServerInfo: s.identity(), Instructions: s.cfg.Instructions(ctx),
	}, nil
}

func (s *Server) discover(ctx context.Context) *mcp.DiscoverResult {
	r := &mcp.DiscoverResult{SupportedVersions: mcp.ValidProtocolVersions, Capabilities: s.capabilities(), Instructions: s.cfg.Instructions(ctx)}
	r.Capabilities.Extensions = map[string]any{tasksExtension: struct{}{}}
	r.EnsureResultMeta().SetServerInfo(s.identity())
	return r
}

// hasPrompts reports whether there are prompts, which may change, and with them what resources/list has.
func (s *Server) hasPrompts() bool { return s.cfg.Methods[mcp.MethodPromptsList] != nil }

// capabilities returns the capabilities of the server, for both eras.
func (s *Server) capabilities() (c mcp.ServerCapabilities) {
	_ = json.Unmarshal([]byte(`{"tools":{},"resources":{},"logging":{}}`), &c) // their types have no names
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

// subscribe acknowledges a subscription to nothing: no list of ours changes by itself.
func subscribe(m *Message) (mcp.ResultMetadata, *Fault) {
	var p mcp.SubscriptionsListenParams
	if bad := m.ReadParams(&p); bad != nil {
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

// prepare has the arguments of a call of a tool checked, once: what is wrong with them is its answer.
func (s *Server) prepare(ctx context.Context, m *Message) context.Context {
	if m.Called.Name == "" || m.unread != nil || s.cfg.WhyNoTool(m.Called.Name) != "" {
		return ctx
	}
	ctx, m.call = s.cfg.Prepare(ctx, m)
	m.Params, m.Called.Arguments = nil, nil // a call may take long, and has them in another form
	return ctx
}

// callTool runs a tool.
func (s *Server) callTool(ctx context.Context, m *Message) (mcp.ResultMetadata, *Fault) {
	switch {
	case m.unread != nil:
		return nil, m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("unparsable %s request: %v", m.method, m.unread))
	case m.call.Run == nil:
		return nil, m.Refuse(mcp.INVALID_PARAMS, s.cfg.WhyNoTool(m.Called.Name))
	}
	m.Progress = startProgress(m)
	defer m.Progress.stop()
	return m.call.Run(ctx), nil
}
