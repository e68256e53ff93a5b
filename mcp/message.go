package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
)

// message is one JSON-RPC message: a request, a notification, or an answer to a request of ours.
type message struct {
	Version json.RawMessage `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  json.RawMessage `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`

	session    *clientSession
	to         *stream // gets what else there is to say of a request than its answer
	key        string  // which request it is among those of its conn
	method     string
	size       int
	version    string     // of the protocol that it names; "" is none
	modern     bool       // of the protocol 2026-07-28, or a later one
	sender     sender     // of a modern one
	knowsTasks bool       // its sender declares the extension
	called     callParams // of a call of a tool
	unread     error      // what is wrong with these
	call       *call      // nil where its arguments are wrong, and why says how
	why        error
	task       *task       // that it may become: its client's user can't be asked meanwhile
	quiet      atomic.Bool // nothing more may be sent about it
	failed     int         // the code of the error that it was answered with; 0 is none
	plain      bool        // it came without the protocol, and is answered so
	status     int         // of HTTP, of the answer to a plain one
	release    func()      // notes that nothing of it is held any more; nil does nothing
}

// parse reads one line. What is no sound message is answered with the fault.
func parse(l line) (*message, *fault) {
	m := &message{size: len(l.text)}
	broken := func(code int, format string, args ...any) (*message, *fault) {
		return nil, &fault{id: findID(l.text), code: code, text: fmt.Sprintf(format, args...)}
	}
	switch {
	case l.long > 0:
		return broken(mcp.INVALID_REQUEST, "the message has %d bytes, and %d is the most: put large data into a session piece by piece", l.long, maxLine)
	case !utf8.Valid(l.text):
		return broken(mcp.PARSE_ERROR, "parse error: the line is not UTF-8")
	}
	err := json.Unmarshal(l.text, m)
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
func (m *message) unsound() *fault {
	hasID := len(m.ID) > 0 && (m.ID[0] == '"' || m.ID[0] == '-' || '0' <= m.ID[0] && m.ID[0] <= '9')
	refuse := func(code int, text string) *fault {
		f := &fault{code: code, text: text}
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
func (m *message) encoded(result any) []byte {
	b, err := json.Marshal(mcp.NewJSONRPCResultResponse(mcp.NewRequestId(m.ID), result))
	if err != nil {
		return m.refuse(mcp.INTERNAL_ERROR, "the result can't be encoded: "+err.Error()).encode()
	}
	return b
}

func (m *message) refuse(code int, text string) *fault {
	return &fault{id: m.ID, code: code, text: text}
}

// codeBusy is of the range that JSON-RPC leaves to servers.
const codeBusy = -32000

// fault is a JSON-RPC error.
type fault struct {
	id   json.RawMessage // nil when the request's is not known
	code int
	text string
	data any
}

func (f *fault) with(data any) *fault {
	f.data = data
	return f
}

func (f *fault) encode() []byte {
	return marshal(mcp.NewJSONRPCError(mcp.NewRequestId(f.id), f.code, f.text, f.data))
}
