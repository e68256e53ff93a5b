package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// Tool is a function of a session's client, which the session's code can import from the module tools. Resume of
// package run answers its calls.
type Tool struct {
	Name        string          `json:"name"` // valid in Python and JavaScript
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"` // JSON Schema of its arguments, an object; nil accepts any
}

// Bounds of a session's tools.
const (
	maxTools           = 128
	maxToolDescription = 16 << 10 // bytes, of a description and of a schema each
	DefaultToolTimeout = 5 * time.Minute
)

// notTools are names that can't be imported, or that the module uses itself.
var notTools = strings.Fields(`ToolError default False None True and as assert async await break class continue def del elif else except finally for
	from global if import in is lambda nonlocal not or pass raise return try while with yield case catch const debugger delete do enum export extends
	false function instanceof new null super switch this throw true typeof var void let static`)

var toolName = lazy.Regexp(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)

// CallsTools reports whether code of a language can call tools.
func CallsTools(language string) bool {
	return language == validate.Python || language == validate.Node
}

// kernelTools checks the tools of a session.
func kernelTools(language string, tools []Tool) (all []kernel.Tool, err error) {
	no := func(format string, a ...any) ([]kernel.Tool, error) {
		return nil, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf(format, a...), "correct the tools")
	}
	switch {
	case len(tools) == 0:
		return nil, nil
	case !CallsTools(language):
		return no("only Python and Node code can call tools, not %s", language)
	case len(tools) > maxTools:
		return no("a session can have %d tools at most, not %d", maxTools, len(tools))
	}
	for _, t := range tools {
		params, err := paramsOf(t.Schema)
		switch {
		case !toolName().MatchString(t.Name) || slices.Contains(notTools, t.Name):
			return no("%.80q is not a valid name of a tool: code imports it, so use 1-64 letters, digits and underscores, and no keyword", t.Name)
		case slices.ContainsFunc(all, func(other kernel.Tool) bool { return other.Name == t.Name }):
			return no("two tools are named %q", t.Name)
		case len(t.Description) > maxToolDescription || len(t.Schema) > maxToolDescription:
			return no("the description or the schema of tool %q has more than %d bytes", t.Name, maxToolDescription)
		case err != nil:
			return no("the input_schema of tool %q is not an object schema: %v", t.Name, err)
		}
		all = append(all, kernel.Tool{Name: t.Name, About: t.Description, Params: params})
	}
	return all, nil
}

// paramsOf returns the names of a schema's properties in their order.
func paramsOf(schema json.RawMessage) (names []string, err error) {
	if len(bytes.TrimSpace(schema)) == 0 {
		return nil, nil
	}
	var s struct {
		Type       string          `json:"type"`
		Properties json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, err
	}
	if s.Type != "" && s.Type != "object" {
		return nil, fmt.Errorf("its type is %.40q", s.Type)
	}
	if s.Properties == nil {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(s.Properties))
	if first, _ := d.Token(); first != json.Delim('{') {
		return nil, errors.New("its properties are not an object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		if err := d.Decode(new(json.RawMessage)); err != nil {
			return nil, err
		}
		names = append(names, name.(string))
	}
	return names, nil
}
