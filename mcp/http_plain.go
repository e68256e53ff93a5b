package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
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
func (h *HTTP) operate(w http.ResponseWriter, r *http.Request, name string) *refused {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return refuse(http.StatusMethodNotAllowed, "send POST, with the arguments as a JSON object")
	}
	of, no := h.caller(r)
	if no != nil {
		return no
	}
	body, no := readBody(r)
	if no != nil {
		return no
	}
	s, no := h.outside(r, of)
	if no != nil {
		return no
	}
	defer h.leave(s)
	if s.conn.s.tool(name) == nil {
		return refuse(http.StatusNotFound, s.conn.s.noTool(name))
	}
	if len(body) == 0 {
		body = []byte("{}")
	}
	if !json.Valid(body) {
		return refuse(http.StatusBadRequest, "the body is not JSON: send the arguments as an object")
	}
	i, _ := identity.From(r.Context())
	no = h.respond(w, r, s, &message{
		size: len(body), key: h.newKey(), method: string(mcp.MethodToolsCall), modern: true, plain: true,
		sender: sender{name: i.String()},
		called: callParams{Name: name, Arguments: body},
	})
	if no != nil && no.status == http.StatusServiceUnavailable {
		no.retry = time.Second
	}
	return no
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
		case why.Stage == pipeline.StageAudit, why.Stage == pipeline.StageQueue:
			m.status = http.StatusServiceUnavailable
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
