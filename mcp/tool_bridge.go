package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

const aboutBridge = `Puts a value into a session as a variable (in a shell also as a file): a given one, or a variable of another session, ` +
	`also one of another language. It goes as JSON.`

type bridgeArgs struct {
	Session string          `json:"session_id" about:"The session that the value goes into." range:"1..64" required:"true"`
	Key     string          `json:"key" about:"The variable's name there." range:"1..200" required:"true"`
	Value   json.RawMessage `json:"value" about:"The value as JSON: \"[1, 2, 3]\", \"{\\\"a\\\": 1}\", \"42\". What is no JSON is taken as text; text that is also JSON goes in quotes of its own: \"\\\"42\\\"\". Leave it out with from_session_id."`
	From    string          `json:"from_session_id" about:"The session that has the value." range:"..64"`
	FromKey string          `json:"from_key" about:"The variable's name in from_session_id. Default: key." range:"..200"`
	inNamespace
}

type bridgeFacts struct {
	common
	RequestID string `json:"request_id,omitempty" about:"The id under which the audit log has it."`
	SessionID string `json:"session_id,omitempty" about:"The session that the value is in now."`
	Key       string `json:"key,omitempty" about:"The variable's name."`
	Kind      string `json:"kind,omitempty" about:"What it is: object, list, string, number, boolean or null; absent where it came from another session."`
	Bytes     int    `json:"bytes,omitempty" about:"Bytes of the value's JSON; absent where it came from another session."`
}

func (s *Server) bridgeData(ctx context.Context, c *call, a *bridgeArgs) (*answer, error) {
	b := pipeline.Bridge{Namespace: c.namespace, Session: a.Session, From: a.From, Key: a.Key, As: a.Key}
	f := &bridgeFacts{SessionID: b.Session, Key: b.As}
	what := "variable " + cmp.Or(a.FromKey, b.Key) + " of session " + b.From
	if b.From != "" && string(a.Value) == "null" {
		a.Value = nil // which is how some callers leave it out
	}
	switch {
	case a.Value != nil && b.From != "":
		return nil, operation.Wrong("value", "there is from_session_id, too: send one of them")
	case b.From != "":
		b.Key = cmp.Or(a.FromKey, b.Key)
	case a.Value == nil:
		return nil, operation.Wrong("value", "is missing: send it, or from_session_id")
	default:
		b.Value = jsonValue(a.Value)
		f.Kind, f.Bytes = jsonKind(b.Value), len(b.Value)
		what = fmt.Sprintf("%s, %s of JSON", f.Kind, size(int64(f.Bytes)))
	}
	res, err := s.cfg.Pipeline.Do(ctx, b)
	if err != nil {
		return nil, err
	}
	f.RequestID = res.ID
	return &answer{text: fmt.Sprintf("%s is set in session %s (%s)\nrequest_id: %s", b.As, b.Session, what, res.ID), facts: f}, nil
}

// jsonValue returns the JSON in a string, or else the string. The schema has a string for it, since a property without
// a type is refused by some clients.
func jsonValue(raw json.RawMessage) json.RawMessage {
	var s string
	if json.Unmarshal(raw, &s) == nil && json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return raw
}

func jsonKind(raw json.RawMessage) string {
	kinds := map[byte]string{'{': "object", '[': "list", '"': "string", 't': "boolean", 'f': "boolean", 'n': "null"}
	return cmp.Or(kinds[bytes.TrimSpace(raw)[0]], "number")
}
