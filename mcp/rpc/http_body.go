package rpc

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// read reads the message of a request.
func read(r *http.Request) (m *Message, no *refused) {
	body, no := readBody(r)
	if no != nil {
		return nil, no
	}
	var bad *Fault
	err := door.Decode(r.Context(), len(body), 0, func() error {
		m, bad = parse(line{text: bytes.TrimSpace(body)})
		return nil
	})
	switch {
	case err != nil:
		return nil, unread(err)
	case bad != nil:
		return nil, &refused{status: http.StatusBadRequest, Fault: *bad}
	case m.size > maxOther && m.method != string(mcp.MethodToolsCall):
		return nil, refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("%d bytes are the most of a message that calls no tool", maxOther))
	}
	return m, nil
}

// readBody reads the body of a request.
func readBody(r *http.Request) ([]byte, *refused) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "Content-Type must be application/json")
	}
	body, err := door.ReadBody(r, door.MaxBody)
	if err != nil {
		return nil, unread(err)
	}
	return body, nil
}

// mirrored returns the fault in the headers that repeat what a message says, or nil. Proxies decide by these headers.
func mirrored(r *http.Request, m *Message) *Fault {
	version := r.Header.Get(mcp.HeaderProtocolVersion)
	switch {
	case version != "" && !mcp.IsValidProtocolVersion(version):
		return m.unsupported(version)
	case !m.Modern && mcp.IsModernProtocol(version):
		return m.Refuse(mcp.HEADER_MISMATCH, fmt.Sprintf("the header %s says %s, and _meta does not", mcp.HeaderProtocolVersion, version))
	case !m.Modern:
		return nil
	case version != m.version:
		return m.Refuse(mcp.HEADER_MISMATCH, fmt.Sprintf("the header %s must say %s, as _meta does", mcp.HeaderProtocolVersion, m.version))
	}
	if err := mcp.ValidateStandardHeaders(r.Header.Get, m.version, mcp.MCPMethod(m.method), m.Params); err != nil {
		return m.Refuse(mcp.HEADER_MISMATCH, safetext.Clip(err.Error(), 500))
	}
	return nil
}
