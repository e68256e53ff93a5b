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

// readMessage reads the message in a request's body.
func readMessage(r *http.Request) (m *Message, no *refusal) {
	body, no := readBody(r)
	if no != nil {
		return nil, no
	}
	var bad *Fault
	err := door.Decode(r.Context(), len(body), 0, func() error {
		m, bad = parseLine(inputLine{text: bytes.TrimSpace(body)})
		return nil
	})
	switch {
	case err != nil:
		return nil, refuseBody(err)
	case bad != nil:
		return nil, &refusal{status: http.StatusBadRequest, Fault: *bad}
	case m.size > maxOverhead && m.method != string(mcp.MethodToolsCall):
		return nil, refuse(http.StatusRequestEntityTooLarge,
			fmt.Sprintf("the message is too large: the maximum is %d bytes for anything but a tool call", maxOverhead))
	}
	return m, nil
}

func readBody(r *http.Request) ([]byte, *refusal) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "Content-Type must be application/json")
	}
	body, err := door.ReadBody(r, door.MaxBody)
	if err != nil {
		return nil, refuseBody(err)
	}
	return body, nil
}

// checkMirroredHeaders returns a fault if a header differs from the member of the message that it repeats. Proxies
// decide by these headers.
func checkMirroredHeaders(r *http.Request, m *Message) *Fault {
	version := r.Header.Get(mcp.HeaderProtocolVersion)
	switch {
	case version != "" && !mcp.IsValidProtocolVersion(version):
		return m.refuseVersion(version)
	case !m.Modern && mcp.IsModernProtocol(version):
		return m.Refuse(mcp.HEADER_MISMATCH, fmt.Sprintf("the header %s is %s, but _meta has no version", mcp.HeaderProtocolVersion, version))
	case !m.Modern:
		return nil
	case version != m.version:
		return m.Refuse(mcp.HEADER_MISMATCH, fmt.Sprintf("the header %s must be %s, as in _meta", mcp.HeaderProtocolVersion, m.version))
	}
	if err := mcp.ValidateStandardHeaders(r.Header.Get, m.version, mcp.MCPMethod(m.method), m.Params); err != nil {
		return m.Refuse(mcp.HEADER_MISMATCH, safetext.Clip(err.Error(), 500))
	}
	return nil
}
