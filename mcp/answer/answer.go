// Package answer renders the answer to a tool call: text and images for the model, and the same facts as structured
// content for programs that want it.
//
// A run's outcome becomes an Outcome, whose field order is that of the wire, and a text with its exit code, excerpts
// of its output, values, images, refused hosts, files and next steps. An error becomes a Refusal, in the words of the
// tool that was called. Finally, deceptive characters are escaped, and the client gets the facts too if that does not
// hide the text from its model.
//
// The files in order, each of which calls those behind it: answer, run_text, receipt, refusal, egress_text, image,
// report, outcome, terms, commands, excerpt, structured, uri.
package answer

import (
	"cmp"
	"net/http"
	"reflect"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/rpc"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// Common is part of all structured content. Some clients drop the text of an answer with structured content (see
// seenClients), so Common repeats it.
type Common struct {
	Text    string   `json:"text" about:"The whole answer as text, as in content." required:"true"`
	Refused *Refusal `json:"refused,omitempty" about:"Why the call was refused or failed."`
}

func (s *Common) setText(text string) { s.Text = text }

// HTTPFault returns the body and status of a failed operation without the protocol.
func (s *Common) HTTPFault() (status int, f rpc.PlainFault) {
	why := cmp.Or(s.Refused, &Refusal{Reason: "it failed"})
	switch {
	case why.Stage == pipeline.StageAudit, why.Stage == pipeline.StageQueue:
		status = http.StatusServiceUnavailable
	case why.arguments:
		status = http.StatusBadRequest
	case why.Denied:
		status = http.StatusUnprocessableEntity
	default:
		status = http.StatusInternalServerError
	}
	return status, rpc.PlainFault{Error: why.Reason, Hint: why.Remedy, Stage: why.Stage, Layer: why.Layer}
}

// facts are the structured content of an answer.
type facts interface {
	setText(text string)
}

// Answer is the result of a tool call.
type Answer struct {
	Text   string
	Facts  facts
	Extra  []mcp.Content // images and links
	Failed bool          // the server failed, not the program
	Ask    *mcp.CallToolResult
}

// ResultFor returns the protocol's form of the answer: text, images and links, without invisible characters, and
// structured content if wanted.
func (a *Answer) ResultFor(structured bool) *mcp.CallToolResult {
	if a.Ask != nil {
		return a.Ask
	}
	a.Text = safetext.Model(a.Text)
	r := &mcp.CallToolResult{Content: append([]mcp.Content{mcp.NewTextContent(a.Text)}, a.Extra...), IsError: a.Failed}
	if structured {
		makeReadable(reflect.ValueOf(a.Facts))
		a.Facts.setText(a.Text)
		r.StructuredContent = a.Facts
	}
	return r
}

// makeReadable applies safetext.Model to all strings in a value.
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
		if is := safetext.Model(v.String()); is != v.String() {
			v.SetString(is)
		}
	}
}

// Failure returns the answer to a failed tool call.
func Failure(tool string, err error) *Answer {
	r := Explain(tool, err)
	return &Answer{Text: r.String(), Facts: &Common{Refused: &r}, Failed: true}
}
