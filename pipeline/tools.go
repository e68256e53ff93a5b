package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// Tool is a function of a session's client, which the session's code can import from the module tools. See [Pipeline.Resume] for how its
// calls are answered.
type Tool struct {
	Name        string          `json:"name"` // as Python and JavaScript can have one
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"input_schema"` // of its arguments: a JSON Schema of an object; nil takes any
}

// Bounds of a session's tools.
const (
	maxTools           = 128
	maxToolDescription = 16 << 10 // bytes, and as many of a schema
	defaultToolTimeout = 5 * time.Minute
)

// notTools are names that no function can be imported by, or that the module has already.
var notTools = strings.Fields(`ToolError default False None True and as assert async await break class continue def del elif else except finally for
	from global if import in is lambda nonlocal not or pass raise return try while with yield case catch const debugger delete do enum export extends
	false function instanceof new null super switch this throw true typeof var void let static`)

var toolName = lazy.Regexp(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)

// callsTools reports whether code of a language can call tools.
func callsTools(language string) bool {
	return language == validate.Python || language == validate.Node
}

// kernelTools checks the tools of a session.
func kernelTools(language string, tools []Tool) (all []kernel.Tool, err error) {
	no := func(format string, a ...any) ([]kernel.Tool, error) {
		return nil, refuse(StageValidate, fmt.Sprintf(format, a...), "correct the tools")
	}
	switch {
	case len(tools) == 0:
		return nil, nil
	case !callsTools(language):
		return no("only code of Python and Node can call tools, not %s", language)
	case len(tools) > maxTools:
		return no("a session can have %d tools, not %d", maxTools, len(tools))
	}
	for _, t := range tools {
		params, err := paramsOf(t.Schema)
		switch {
		case !toolName().MatchString(t.Name) || slices.Contains(notTools, t.Name):
			return no("%.80q can't be the name of a tool: code imports it by its name, of letters, digits and underscores, 64 at most", t.Name)
		case slices.ContainsFunc(all, func(other kernel.Tool) bool { return other.Name == t.Name }):
			return no("there are two tools %q", t.Name)
		case len(t.Description) > maxToolDescription || len(t.Schema) > maxToolDescription:
			return no("the description or the schema of tool %q has more than %d bytes", t.Name, maxToolDescription)
		case err != nil:
			return no("the input_schema of tool %q is none of an object: %v", t.Name, err)
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
		return nil, errors.New("its properties are no object")
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

// callTool carries out a call by the code of a cell.
func (e *execution) callTool(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	if e.request.calls == nil {
		return nil, errors.New("this code was not sent by who answers the session's calls of tools")
	}
	answer, _, err := Do(ctx, e.p, &toolUse{of: e, call: ToolCall{Name: name, Arguments: arguments}})
	if err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	return answer.Value, nil
}

// toolUse is the effect of a call of a tool. Its row is in the audit log before the client hears of it.
type toolUse struct {
	of   *execution
	call ToolCall
}

func (u *toolUse) subject() subject {
	return subject{name: u.call.Name, namespace: u.of.res.Namespace, session: u.of.res.Session, client: u.of.request.Client}
}

// plan takes secrets out of the arguments.
func (u *toolUse) plan(_ context.Context, r *run) (action[ToolResult], error) {
	e := u.of
	r.leases, r.now = e.leases, e.now
	r.res.Language, r.res.Backend, r.res.Profile = e.res.Language, e.res.Backend, e.res.Profile
	if !slices.ContainsFunc(e.tools, func(t kernel.Tool) bool { return t.Name == u.call.Name }) {
		return nil, refuse(StageValidate, fmt.Sprintf("the session has no tool %.80q", r.clean(u.call.Name)), "call one that it has")
	}
	u.call.ID, u.call.Arguments = r.res.ID, r.cleanJSON(u.call.Arguments)
	if !json.Valid(u.call.Arguments) || bytes.TrimSpace(u.call.Arguments)[0] != '{' {
		return nil, refuse(StageValidate, "the arguments are no JSON object without the secrets in them", "leave out what is secret")
	}
	u.capture(r, "arguments", u.call.Arguments)
	about := facts{"tool": u.call.Name, "session": r.res.Session, "of": e.res.ID}
	sent := facts{"arguments_bytes": len(u.call.Arguments), "arguments_sha256": hash(u.call.Arguments)}
	maps.Copy(sent, about)
	return &change[ToolResult]{task: task[ToolResult]{run: r, stage: StageBackend, do: func(ctx context.Context) (ToolResult, error) {
		return u.ask(ctx, r, about), nil
	}}, row: "session.tool_called", facts: sent}, nil
}

// ask waits for the client's answer, and notes the row about it.
func (u *toolUse) ask(ctx context.Context, r *run, row facts) ToolResult {
	answer, ended := u.answer(ctx)
	row["ended"] = ended
	clean := r.cleanJSON(answer.Value)
	row.add("answer_bytes", len(answer.Value), len(answer.Value))
	row.add("answer_sha256", hash(clean), len(clean))
	row.add("error", answer.Error, len(answer.Error))
	r.note("session.tool_answered", row)
	u.capture(r, "answer", clean)
	return answer
}

// answer returns the client's answer, and how the call ended. The run has no slots of the queue while it waits for that.
func (u *toolUse) answer(ctx context.Context) (answer ToolResult, ended string) {
	if err := u.of.seat.rest(ctx); err != nil {
		return ToolResult{Error: err.Error()}, "refused"
	}
	limit := u.of.session.ToolTimeout()
	if limit <= 0 {
		limit = defaultToolTimeout
	}
	timed, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer came within %s s", formatNumber(limit.Seconds())))
	defer cancel()
	answer, err := u.of.request.calls.call(timed, u.call)
	switch ended = "ok"; {
	case err != nil:
		answer.Error, ended = err.Error(), "timeout"
	case answer.Error != "":
		ended = "error"
	}
	if gone := u.of.seat.goOn(ctx); gone != nil { // its code has ended, or is being ended
		answer, ended = ToolResult{Error: gone.Error()}, "cancelled"
	}
	return answer, ended
}

// capture notes what was sent or answered, where the operator wants that in the log. It is free of secrets.
func (u *toolUse) capture(r *run, what string, clean json.RawMessage) {
	if r.p.cfg.Capture.Output && len(clean) > 0 {
		r.note(executionCaptured, facts{"tool": u.call.Name, "of": u.of.res.ID, what: captured(clean), what + "_bytes": len(clean)})
	}
}

// cleanJSON removes secrets from a value: from each text in it, however JSON writes that, and then from the whole. What it returns may be
// no JSON any more, if something else than a text was secret.
func (v redactor) cleanJSON(value json.RawMessage) json.RawMessage {
	var tree any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if d.Decode(&tree) == nil {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		if e.Encode(v.cleanTree(tree)) == nil {
			value = bytes.TrimSpace(out.Bytes())
		}
	}
	return json.RawMessage(v.clean(string(value)))
}

func (v redactor) cleanTree(tree any) any {
	switch tree := tree.(type) {
	case string:
		return v.clean(tree)
	case []any:
		for i := range tree {
			tree[i] = v.cleanTree(tree[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(tree))
		for key, one := range tree {
			clean[v.clean(key)] = v.cleanTree(one)
		}
		return clean
	}
	return tree
}
