package rpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
)

func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil { // our bug: v has strings and JSON only
		return json.RawMessage("null")
	}
	return b
}

// envelope is the wire form of a message.
type envelope struct {
	Version json.RawMessage `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  json.RawMessage `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

// Message is one JSON-RPC message: a request, a notification, or a response to one of our requests.
type Message struct {
	envelope
	Progress *progress // of a running tool call; nil sends nothing

	session       *clientSession
	stream        *stream // carries notifications and our requests, and on stdio the response
	key           string  // identifies the request within its conn
	method        string
	size          int
	version       string     // protocol version in _meta; "" is none
	Modern        bool       // protocol 2026-07-28 or later
	sender        clientInfo // of a modern request
	knowsTasks    bool       // the client declares the tasks extension
	Called        callParams // of tools/call
	paramsErr     error      // from decoding Called
	call          Call
	task          *task       // nil if the request can't become a task
	progressEnded atomic.Bool // no more progress may be sent
	faultCode     int         // code of the error response; 0 is none
	Plain         bool        // sent without the protocol, and answered without it
	status        int         // HTTP status of the response to a plain request
	release       func()      // releases the memory that the request holds; may be nil
}

// parseLine decodes one line. An invalid message is answered with the fault.
func parseLine(l inputLine) (*Message, *Fault) {
	m := &Message{size: len(l.text)}
	broken := func(code int, format string, args ...any) (*Message, *Fault) {
		return nil, &Fault{id: findID(l.text), code: code, text: fmt.Sprintf(format, args...)}
	}
	switch {
	case l.size > 0:
		return broken(mcp.INVALID_REQUEST, "the message has %d bytes, and %d is the most: put large data into a session piece by piece", l.size,
			maxLine)
	case !utf8.Valid(l.text):
		return broken(mcp.PARSE_ERROR, "parse error: the line is not UTF-8")
	}
	err := json.Unmarshal(l.text, &m.envelope)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && l.text[0] == '[':
		return broken(mcp.INVALID_REQUEST, "batches are not supported: send one message a line")
	case errors.As(err, &kind):
		return broken(mcp.INVALID_REQUEST, "the message is not a JSON object")
	case err != nil:
		return broken(mcp.PARSE_ERROR, "parse error: %v", err)
	}
	return m, m.checkEnvelope()
}

// checkEnvelope returns a fault if the message's envelope is invalid.
func (m *Message) checkEnvelope() *Fault {
	hasID := len(m.ID) > 0 && (m.ID[0] == '"' || m.ID[0] == '-' || '0' <= m.ID[0] && m.ID[0] <= '9')
	refuse := func(code int, text string) *Fault {
		f := &Fault{code: code, text: text}
		if hasID {
			f.id = m.ID
		}
		return f
	}
	switch {
	case string(m.Version) != `"2.0"`:
		return refuse(mcp.INVALID_REQUEST, `"jsonrpc" must be "2.0"`)
	case m.ID != nil && !hasID:
		return refuse(mcp.INVALID_REQUEST, `"id" must be a string or a number; omit it in a notification`)
	case m.Method == nil && m.Result == nil && m.Error == nil:
		return refuse(mcp.INVALID_REQUEST, `"method" is missing`)
	case m.Method == nil:
		return nil
	case json.Unmarshal(m.Method, &m.method) != nil || m.method == "":
		return refuse(mcp.INVALID_REQUEST, `"method" must be a string`)
	case string(m.Params) == "null":
		m.Params = nil
	case m.Params != nil && m.Params[0] != '{':
		return refuse(mcp.INVALID_PARAMS, `"params" must be an object`)
	}
	return nil
}

// encodeResult encodes a result with the request's own id.
func (m *Message) encodeResult(result any) []byte {
	b, err := json.Marshal(mcp.NewJSONRPCResultResponse(mcp.NewRequestId(m.ID), result))
	if err != nil {
		return m.Refuse(mcp.INTERNAL_ERROR, "the result can't be encoded: "+err.Error()).encode()
	}
	return b
}

// Refuse returns an error response to a request.
func (m *Message) Refuse(code int, text string) *Fault {
	return &Fault{id: m.ID, code: code, text: text}
}

// codeBusy is in the range that JSON-RPC reserves for servers.
const codeBusy = -32000

type Fault struct {
	id   json.RawMessage // nil if the request's id is unknown
	code int
	text string
	data any
}

func (f *Fault) with(data any) *Fault {
	f.data = data
	return f
}

func (f *Fault) encode() []byte {
	return marshal(mcp.NewJSONRPCError(mcp.NewRequestId(f.id), f.code, f.text, f.data))
}
