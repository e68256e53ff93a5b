package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// toolsPath is where the operations are that have their name behind it.
const toolsPath = "/v1/tools/"

// Operations describe what agents can ask of a server without the protocol, at /v1/tools/NAME.
func Operations() []operation.Operation {
	var all []operation.Operation
	for _, t := range (&Server{}).tools() {
		o := t.Operation
		o.Route = http.MethodPost + " " + toolsPath + o.Name
		o.Out = json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"result":%s,"images":{"type":"array","description":"Pictures of the result.","items":`+
			`{"type":"object","properties":{"mime":{"type":"string"},"data":{"type":"string","contentEncoding":"base64"}}}}},"required":["result"]}`, o.Out))
		all = append(all, o)
	}
	return all
}

// plainResult is the answer to an operation.
type plainResult struct {
	Result any          `json:"result"`
	Images []plainImage `json:"images,omitempty"`
}

type plainImage struct {
	MIME string `json:"mime"`
	Data string `json:"data"` // in base64
}

// plainFault is the answer to an operation of which nothing came, as the people's API has it.
type plainFault struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
	Stage string `json:"stage,omitempty"`
	Layer string `json:"layer,omitempty"`
}

// operate answers one operation: the body has its arguments. A client that goes away cancels it.
func (h *HTTP) operate(w http.ResponseWriter, r *http.Request, name string) {
	refuse := func(status int, text string) {
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		operation.Reply(w, status, plainFault{Error: text})
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(http.StatusMethodNotAllowed, "send POST, with the arguments as a JSON object")
		return
	}
	of, status, refused := h.caller(r)
	if status != 0 {
		refuse(status, refused)
		return
	}
	body, size, status, refused := h.body(w, r)
	if status != 0 {
		refuse(status, refused)
		return
	}
	defer h.held.Give(int64(size))
	s := h.outside(r, of)
	if s == nil {
		refuse(http.StatusServiceUnavailable, "the server ends")
		return
	}
	defer h.leave(s)
	if s.conn.s.tool(name) == nil {
		refuse(http.StatusNotFound, s.conn.s.noTool(name))
		return
	}
	if len(body) == 0 {
		body = []byte("{}")
	}
	if !json.Valid(body) {
		refuse(http.StatusBadRequest, "the body is not JSON: send the arguments as an object")
		return
	}
	i, _ := identity.From(r.Context())
	m := &message{
		key: "\x00" + strconv.FormatInt(h.keys.Add(1), 10), method: string(mcp.MethodToolsCall), modern: true, plain: true,
		sender: sender{info: mcp.Implementation{Name: i.String()}},
		called: callParams{Name: name, Arguments: body},
	}
	a := response{w: w, to: newStream(), replied: make(chan []byte, 1)}
	ctx := identity.With(s.ctx, i)
	if bad := s.conn.request(ctx, m, a.to, func(b []byte) { a.replied <- b }); bad != nil {
		refuse(statusOf(bad.code), bad.text)
		return
	}
	defer s.conn.cancelWith(r.Context(), m)()
	a.write(r.Context(), m, s)
}

// withoutProtocol writes what came of a plain request.
func (m *message) withoutProtocol(result mcp.ResultMetadata, bad *fault) []byte {
	m.status = http.StatusOK
	if bad != nil {
		m.status = http.StatusBadRequest
		return marshal(plainFault{Error: bad.text})
	}
	r, _ := result.(*mcp.CallToolResult)
	got, _ := r.StructuredContent.(facts)
	if r.IsError {
		why := refusal{Reason: "it failed"}
		if got != nil {
			why = *cmp.Or(got.why(), &why)
		}
		switch {
		case why.arguments:
			m.status = http.StatusBadRequest
		case why.Denied:
			m.status = http.StatusUnprocessableEntity
		default:
			m.status = http.StatusInternalServerError
		}
		return marshal(plainFault{why.Reason, why.Remedy, why.Stage, why.Layer})
	}
	answer := plainResult{Result: got}
	for _, one := range r.Content {
		if image, ok := one.(mcp.ImageContent); ok {
			answer.Images = append(answer.Images, plainImage{image.MIMEType, image.Data})
		}
	}
	return marshal(answer)
}
