package rpc

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// There are two eras of the protocol. Up to 2025-11-25 a connection begins with initialize, which says version and
// capabilities for all that follows. Since 2026-07-28 each request says them itself, in _meta, and a server must not
// take them from requests before it: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning. A
// connection may carry requests of both.

// tasksExtension is declared by clients that know tasks.
const tasksExtension = "io.modelcontextprotocol/tasks"

// maxOther are the bytes of a message that calls no tool, and of a call beside its arguments.
const maxOther = 64 << 10

// meta is what requests say in _meta.
type meta struct {
	Version       json.RawMessage `json:"io.modelcontextprotocol/protocolVersion"`
	Capabilities  json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
	Client        json.RawMessage `json:"io.modelcontextprotocol/clientInfo"`
	LogLevel      json.RawMessage `json:"io.modelcontextprotocol/logLevel"`
	ProgressToken json.RawMessage `json:"progressToken"`
}

// admit notes the era of a request, and says why it is not served, if it is not.
func (c *conn) admit(m *Message) *Fault {
	var p struct {
		Meta meta `json:"_meta"`
	}
	switch {
	case m.method == string(mcp.MethodToolsCall):
		if m.Params != nil {
			m.unread = json.Unmarshal(m.Params, &m.Called)
		}
		if m.size-len(m.Called.Arguments) > maxOther {
			return m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("%d bytes are the most of a call beside its arguments", maxOther))
		}
		p.Meta = m.Called.Meta
	case m.Params != nil:
		_ = json.Unmarshal(m.Params, &p) // what is wrong with the rest is said by who reads it
	}
	switch {
	case p.Meta.Version == nil:
	case json.Unmarshal(p.Meta.Version, &m.version) != nil:
		return m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("%q in _meta must be a string", mcp.MetaKeyProtocolVersion))
	case !mcp.IsValidProtocolVersion(m.version):
		return m.unsupported(m.version)
	case mcp.IsModernProtocol(m.version):
		m.Modern = true
		c.stateless.Store(true)
		_ = json.Unmarshal(p.Meta.LogLevel, &m.sender.logs)
		return m.declare(p.Meta)
	}
	if m.method == string(mcp.MethodInitialize) {
		return m.greeting()
	}
	discover := m.method == string(mcp.MethodServerDiscover)
	switch {
	case m.method == string(mcp.MethodPing), c.session.greeted.Load() != nil && !discover:
		return nil
	case !c.stateless.Load() && !discover:
		return m.Refuse(mcp.INVALID_REQUEST, "the connection is not initialized: send initialize first")
	}
	return m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("the request does not say its protocol version: put %q and %q into its _meta, or send initialize first",
		mcp.MetaKeyProtocolVersion, mcp.MetaKeyClientCapabilities))
}

func (m *Message) unsupported(version string) *Fault {
	e := mcp.UnsupportedProtocolVersionError{Version: safetext.Clip(version, 100), Supported: mcp.ValidProtocolVersions}.JSONRPCError().Error
	return m.Refuse(e.Code, e.Message).with(e.Data)
}

// greeting refuses an initialize without a protocol version, which the library takes for that of a very old client.
func (m *Message) greeting() *Fault {
	var p struct {
		Version *string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil || p.Version == nil {
		return m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("initialize needs \"protocolVersion\", a string such as %q", mcp.LATEST_LEGACY_PROTOCOL_VERSION))
	}
	return nil
}

// declare notes the capabilities and the extensions of the sender of a request.
func (m *Message) declare(request meta) *Fault {
	var c struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	var info mcp.Implementation
	_ = json.Unmarshal(request.Client, &info) // who does not say it well is unknown
	var capabilities mcp.ClientCapabilities
	if raw := request.Capabilities; len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &c) != nil || json.Unmarshal(raw, &capabilities) != nil {
		return m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("_meta needs %q, an object: {} declares none", mcp.MetaKeyClientCapabilities))
	}
	m.sender.describe(info, capabilities)
	m.knowsTasks = bytes.HasPrefix(c.Extensions[tasksExtension], []byte("{"))
	return nil
}

//go:embed icon.png
var icon []byte

// identity returns the description of the server in initialize and server/discover. Other results of the newer era have
// name and version only.
func (s *Server) identity() mcp.Implementation {
	return mcp.Implementation{
		Name: "sandboxmcp", Title: "sandboxmcp", Version: s.cfg.Version,
		Description: "Runs code in sandboxes that the kernel enforces, and leaves a signed receipt for every run.",
		Icons: []mcp.Icon{{ // in itself: a server on stdio has no address to fetch one from
			Src: "data:image/png;base64," + base64.StdEncoding.EncodeToString(icon), MIMEType: "image/png", Sizes: []string{"48x48"},
		}},
	}
}
