package rpc

import (
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
)

// plainResult is the response to a single operation.
type plainResult struct {
	Result any          `json:"result"`
	Images []plainImage `json:"images,omitempty"`
}

type plainImage struct {
	MIME string `json:"mime"`
	Data string `json:"data"` // base64
}

// PlainFault is the response to a failed operation, in the format of the /v1 API.
type PlainFault struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
	Stage string `json:"stage,omitempty"`
	Layer string `json:"layer,omitempty"`
}

// encodePlain encodes the response to a plain request and sets its status.
func (m *Message) encodePlain(result mcp.ResultMetadata, bad *Fault) []byte {
	m.status = http.StatusOK
	if bad != nil {
		m.status = http.StatusBadRequest
		return marshal(PlainFault{Error: bad.text})
	}
	r, _ := result.(*mcp.CallToolResult)
	if r.IsError {
		why := PlainFault{Error: "it failed"}
		m.status = http.StatusInternalServerError
		if failed, ok := r.StructuredContent.(interface{ HTTPFault() (int, PlainFault) }); ok {
			m.status, why = failed.HTTPFault()
		}
		return marshal(why)
	}
	answer := plainResult{Result: r.StructuredContent}
	for _, one := range r.Content {
		if image, ok := one.(mcp.ImageContent); ok {
			answer.Images = append(answer.Images, plainImage{image.MIMEType, image.Data})
		}
	}
	return marshal(answer)
}
