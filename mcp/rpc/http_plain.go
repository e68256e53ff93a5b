package rpc

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// ToolsPath is the path of single operations; the name follows it.
const ToolsPath = "/v1/tools/"

// callOperation runs one operation with the body as its arguments. It is cancelled when the client disconnects.
func (h *HTTP) callOperation(w http.ResponseWriter, r *http.Request, name string) *refusal {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return refuse(http.StatusMethodNotAllowed, "send POST, with the arguments as a JSON object")
	}
	from, no := h.identifyCaller(r)
	if no != nil {
		return no
	}
	body, no := readBody(r)
	if no != nil {
		return no
	}
	s, no := h.acquireShared(r, from)
	if no != nil {
		return no
	}
	defer h.releaseSession(s)
	if why := s.conn.s.cfg.WhyNoTool(name); why != "" {
		return refuse(http.StatusNotFound, why)
	}
	if len(body) == 0 {
		body = []byte("{}")
	}
	if !json.Valid(body) {
		return refuse(http.StatusBadRequest, "the body is not JSON: send the arguments as an object")
	}
	i, _ := identity.From(r.Context())
	no = h.respond(w, r, s, &Message{
		size: len(body), key: h.newKey(), method: string(mcp.MethodToolsCall), Modern: true, Plain: true,
		sender: clientInfo{Name: i.String()},
		Called: callParams{Name: name, Arguments: body},
	})
	if no != nil && no.status == http.StatusServiceUnavailable {
		no.retry = time.Second
	}
	return no
}
