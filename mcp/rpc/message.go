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
	if err != nil { // our bug: it is made of strings and JSON
		return json.RawMessage("null")
	}
	return b
}

// envelope is what a message says of itself on the wire.
type envelope struct {
	Version json.RawMessage `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  json.RawMessage `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

// Message is one JSON-RPC message: a request, a notification, or an answer to a request of ours.
type Message struct {
	envelope
	Progress *progress // of a call of a tool, while it runs; nil tells nobody

	session    *clientSession
	to         *stream // gets what else there is to say of a request than its answer
	key        string  // which request it is among those of its conn
	method     string
	size       int
	version    string     // of the protocol that it names; "" is none
	Modern     bool       // of the protocol 2026-07-28, or a later one
	sender     sender     // of a modern one
	knowsTasks bool       // its sender declares the extension
	Called     callParams // of a call of a tool
	unread     error      // what is wrong with these
	call       Call
	task       *task       // that it may become; nil is none
	quiet      atomic.Bool // nothing more may be sent about it
	failed     int         // the code of the error that it was answered with; 0 is none
	Plain      bool        // it came without the protocol, and is answered so
	status     int         // of HTTP, of the answer to a plain one
	release    func()      // notes that nothing of it is held any more; nil does nothing
}

// parse reads one line. What is no sound message is answered with the fault.
func parse(l line) (*Message, *Fault) {
	m := &Message{size: len(l.text)}
	broken := func(code int, format string, args ...any) (*Message, *Fault) {
		return nil, &Fault{id: findID(l.text), code: code, text: fmt.Sprintf(format, args...)}
	}
	switch {
	case l.long > 0:
		return broken(mcp.INVALID_REQUEST, "the message has %d bytes, and %d is the most: put large data into a session piece by piece", l.long, maxLine)
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
	return m, m.unsound()
}

// unsound returns the fault in the envelope of a message, or nil.
func (m *Message) unsound() *Fault {
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
		return refuse(mcp.INVALID_REQUEST, `"id" must be a string or a number; leave it out in a notification`)
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

// encoded writes a result under the client's own id.
func (m *Message) encoded(result any) []byte {
	b, err := json.Marshal(mcp.NewJSONRPCResultResponse(mcp.NewRequestId(m.ID), result))
	if err != nil {
		return m.Refuse(mcp.INTERNAL_ERROR, "the result can't be encoded: "+err.Error()).encode()
	}
	return b
}

// Refuse returns the fault that answers a request.
func (m *Message) Refuse(code int, text string) *Fault {
	return &Fault{id: m.ID, code: code, text: text}
}

// codeBusy is of the range that JSON-RPC leaves to servers.
const codeBusy = -32000

// Fault is a JSON-RPC error.
type Fault struct {
	id   json.RawMessage // nil when the request's is not known
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
