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

// The protocol has two eras. Up to 2025-11-25 a connection begins with initialize, which sets version and
// capabilities for all later requests. Since 2026-07-28 each request carries them in _meta, and a server must not
// reuse those of an earlier request: https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning. A
// connection may carry requests of both eras.

// tasksExtension is the extension that clients with support for tasks declare.
const tasksExtension = "io.modelcontextprotocol/tasks"

// maxOverhead bounds the bytes of a message that is not a tool call, and of a tool call without its arguments.
const maxOverhead = 64 << 10

// meta is the _meta object of requests.
type meta struct {
	Version       json.RawMessage `json:"io.modelcontextprotocol/protocolVersion"`
	Capabilities  json.RawMessage `json:"io.modelcontextprotocol/clientCapabilities"`
	Client        json.RawMessage `json:"io.modelcontextprotocol/clientInfo"`
	LogLevel      json.RawMessage `json:"io.modelcontextprotocol/logLevel"`
	ProgressToken json.RawMessage `json:"progressToken"`
}

// admit sets the era of a request and returns a fault if the request can't be served.
func (c *conn) admit(m *Message) *Fault {
	var p struct {
		Meta meta `json:"_meta"`
	}
	switch {
	case m.method == string(mcp.MethodToolsCall):
		if m.Params != nil {
			m.paramsErr = json.Unmarshal(m.Params, &m.Called)
		}
		if m.size-len(m.Called.Arguments) > maxOverhead {
			return m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("the call is too large: the maximum is %d bytes without its arguments", maxOverhead))
		}
		p.Meta = m.Called.Meta
	case m.Params != nil:
		_ = json.Unmarshal(m.Params, &p) // the handler of the method reports other errors
	}
	switch {
	case p.Meta.Version == nil:
	case json.Unmarshal(p.Meta.Version, &m.version) != nil:
		return m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("%q in _meta must be a string", mcp.MetaKeyProtocolVersion))
	case !mcp.IsValidProtocolVersion(m.version):
		return m.refuseVersion(m.version)
	case mcp.IsModernProtocol(m.version):
		m.Modern = true
		c.stateless.Store(true)
		_ = json.Unmarshal(p.Meta.LogLevel, &m.sender.logs)
		return m.readCapabilities(p.Meta)
	}
	if m.method == string(mcp.MethodInitialize) {
		return m.checkInitialize()
	}
	discover := m.method == string(mcp.MethodServerDiscover)
	switch {
	case m.method == string(mcp.MethodPing), c.session.greeted.Load() != nil && !discover:
		return nil
	case !c.stateless.Load() && !discover:
		return m.Refuse(mcp.INVALID_REQUEST, "the connection is not initialized: send initialize first")
	}
	return m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("the protocol version is missing: put %q and %q into _meta, or send initialize first",
		mcp.MetaKeyProtocolVersion, mcp.MetaKeyClientCapabilities))
}

func (m *Message) refuseVersion(version string) *Fault {
	e := mcp.UnsupportedProtocolVersionError{Version: safetext.Clip(version, 100), Supported: mcp.ValidProtocolVersions}.JSONRPCError().Error
	return m.Refuse(e.Code, e.Message).with(e.Data)
}

// checkInitialize refuses an initialize without a protocol version, which the library would treat as a very old
// client.
func (m *Message) checkInitialize() *Fault {
	var p struct {
		Version *string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil || p.Version == nil {
		return m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("initialize needs \"protocolVersion\", a string such as %q",
			mcp.LATEST_LEGACY_PROTOCOL_VERSION))
	}
	return nil
}

// readCapabilities stores the client's capabilities and extensions from a request's _meta.
func (m *Message) readCapabilities(request meta) *Fault {
	var c struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	var info mcp.Implementation
	_ = json.Unmarshal(request.Client, &info) // an invalid description leaves the client unknown
	var capabilities mcp.ClientCapabilities
	if raw := request.Capabilities; len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &c) != nil ||
		json.Unmarshal(raw, &capabilities) != nil {
		return m.Refuse(mcp.INVALID_PARAMS, fmt.Sprintf("_meta needs %q, an object: {} declares none", mcp.MetaKeyClientCapabilities))
	}
	m.sender.describe(info, capabilities)
	m.knowsTasks = bytes.HasPrefix(c.Extensions[tasksExtension], []byte("{"))
	return nil
}

//go:embed icon.png
var icon []byte

// implementation describes the server in initialize and server/discover. Other results of the newer era have name and
// version only.
func (s *Server) implementation() mcp.Implementation {
	return mcp.Implementation{
		Name: "sandboxmcp", Title: "sandboxmcp", Version: s.cfg.Version,
		Description: "Runs code in sandboxes that the kernel enforces, and leaves a signed receipt for every run.",
		Icons: []mcp.Icon{{ // embedded: a server on stdio has no URL for it
			Src: "data:image/png;base64," + base64.StdEncoding.EncodeToString(icon), MIMEType: "image/png", Sizes: []string{"48x48"},
		}},
	}
}
