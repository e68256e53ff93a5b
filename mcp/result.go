package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// common stands in all structured content. Some clients hand on nothing else when there is some (see seenClients), so
// the text is in it too.
type common struct {
	Text    string   `json:"text" about:"The whole answer as text, as it is in content." required:"true"`
	Refused *refusal `json:"refused,omitempty" about:"Why nothing was done, if nothing was."`
}

func (s *common) say(text string) { s.Text = text }

func (s *common) why() *refusal { return s.Refused }

// refusal is an error of ours.
type refusal struct {
	Reason string `json:"reason" about:"What was refused, or went wrong."`
	Remedy string `json:"remedy,omitempty" about:"What to send, set or type instead."`
	Stage  string `json:"stage,omitempty" about:"The stage that refused: validate, queue, vault, egress, backend or audit."`
	Layer  string `json:"layer,omitempty" about:"The layer of containment that it is about."`
	Denied bool   `json:"denied" about:"True where policy or a missing piece forbids it, false where something broke."`

	arguments bool // they are wrong
}

func (r refusal) String() string {
	text := "refused: " + r.Reason
	if !r.Denied {
		text = "error: " + r.Reason
	}
	if r.Remedy != "" {
		text += "\nwhat to do: " + r.Remedy
	}
	return text
}

// facts are the structured content of an answer.
type facts interface {
	say(text string)
	why() *refusal // nil is that nothing was refused
}

// answer is the outcome of a call.
type answer struct {
	text   string
	facts  facts
	extra  []mcp.Content // images and links
	failed bool          // by us, not by a program
	ask    *mcp.CallToolResult
}

// result returns the answer in the form of the protocol: text, images and links, without invisible characters.
func (a *answer) result() *mcp.CallToolResult {
	if a.ask != nil {
		return a.ask
	}
	a.text = readable(a.text)
	return &mcp.CallToolResult{Content: append([]mcp.Content{mcp.NewTextContent(a.text)}, a.extra...), IsError: a.failed}
}

// result is the answer as the client that asks has it.
func (s *Server) result(m *message, a *answer) *mcp.CallToolResult {
	r := a.result()
	if a.ask == nil && s.structured(m) {
		makeReadable(reflect.ValueOf(a.facts))
		a.facts.say(a.text)
		r.StructuredContent = a.facts
	}
	return r
}

// makeReadable applies readable to all strings of a value.
func makeReadable(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			makeReadable(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			makeReadable(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			makeReadable(v.Index(i))
		}
	case reflect.String:
		if is := readable(v.String()); is != v.String() {
			v.SetString(is)
		}
	}
}

// failure is the answer to a call of a tool of which nothing came.
func failure(tool string, err error) *answer {
	r := explain(tool, err)
	return &answer{text: r.String(), facts: &common{Refused: &r}, failed: true}
}

// explain returns what went wrong, and what a caller of a tool can do about it.
func explain(tool string, err error) refusal {
	var stopped *pipeline.Error
	var arguments operation.Invalid
	var refused *backends.Refusal
	var withheld *results.Withheld
	switch {
	case errors.As(err, &arguments):
		return refusal{Reason: arguments.Error(), Remedy: "correct the arguments and call again", Denied: true, arguments: true}
	case errors.As(err, &stopped):
		return explainStopped(tool, stopped)
	case errors.As(err, &refused): // of a probe: those of runs are the pipeline's
		return explainStopped(tool, &pipeline.Error{Stage: pipeline.StageBackend, Layer: refused.Layer, Reason: refused.Reason, Remedy: refused.Remedy, Denied: true})
	case errors.Is(err, session.ErrUnknown):
		return refusal{Reason: err.Error(), Denied: true,
			Remedy: "inspect_state without arguments lists the sessions, create_session starts one"}
	case errors.As(err, &withheld):
		return refusal{Reason: withheld.Error(), Remedy: pipeline.WithheldRemedy, Denied: true}
	case errors.Is(err, results.ErrUnknown):
		return refusal{Reason: err.Error(), Denied: true,
			Remedy: "get_artifacts with the request_id of a run lists what it left; runs are kept for a while only"}
	case errors.Is(err, errCancelled), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return refusal{Reason: "the call was cancelled: " + err.Error(), Remedy: "call again"}
	}
	if errors.As(err, new(*audit.Unwritten)) {
		return refusal{Reason: audit.UnwrittenText, Stage: pipeline.StageAudit, Remedy: "try again later"}
	}
	if errors.As(err, new(*audit.Fault)) {
		return refusal{Reason: audit.FaultText, Stage: pipeline.StageAudit, Remedy: pipeline.ServersLog}
	}
	reason, do := remedy.Split(err)
	return refusal{Reason: pipeline.HideDisk(reason, err), Remedy: cmp.Or(do.In(wordsOf(tool)), "try again; if it stays, tell the person who runs sandboxmcp")}
}

// explainStopped returns the refusal for a request that the pipeline did not carry out.
func explainStopped(tool string, e *pipeline.Error) refusal {
	do := map[string]string{
		pipeline.StageValidate: "correct the code or the arguments and call again",
		pipeline.StageVault:    "name secrets that the operator has put into the vault for this namespace",
		pipeline.StageQueue:    "try again later",
	}[e.Stage]
	return refusal{Reason: pipeline.HideDisk(e.Reason, e), Stage: e.Stage, Layer: e.Layer, Denied: e.Denied,
		Remedy: cmp.Or(e.Remedy.In(wordsOf(tool)), do, "a person has to look at it: sandboxmcp doctor says what the host lacks")}
}

// count describes how many there are of something.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// size is a number of bytes as people say it.
func size(n int64) string {
	switch {
	case n < 1000:
		return count(int(n), "byte")
	case n < 1000*1000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1000*1000*1000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
