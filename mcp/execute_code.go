package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

const aboutExecute = `Runs code in a sandbox and returns exit code, stdout, stderr, value, images and files. ` +
	`Without session_id each call starts clean; with one, it has the variables, imports and files of earlier calls. ` +
	`As in a notebook, it returns the value of the last expression (in Python also without a session), figures, and small PNG and JPEG files. ` +
	`The working directory is /workspace; files there are artifacts. ` +
	`It reaches only hosts that the operator's configuration or a person allows, and no IP addresses.`

type executeArgs struct {
	Code     string   `json:"code" about:"The source code to run. Required, unless request_id continues waiting code."`
	Language language `json:"language" about:"Language of the code. Default: the session's, or python."`
	Session  string   `json:"session_id" about:"A session from create_session to run in. Default: a new sandbox, deleted afterwards." range:"..64"`
	onBackend
	Timeout   float64                   `json:"timeout" about:"Time limit in seconds, as resource_limits.timeout_seconds." range:"0.001..86400"`
	Allow     []string                  `json:"allowed_domains" about:"The only hosts that the code may reach, if policy or a person allows them. Default: the operator's or the session's hosts. [] disables the network." range:"..100" each:"A host: \"example.com\", \"*.example.com\" or \"example.com:5432\"." eachrange:"..300"`
	Secrets   []string                  `json:"secrets" about:"Names of the operator's secrets. Each becomes an environment variable, and is redacted from all output." range:"..100" each:"A secret's name." eachrange:"..200"`
	Data      []string                  `json:"data" about:"Names of data directories from list_runtimes, mounted read-only at /data/NAME. For a session, send them to create_session." range:"..32" each:"A directory's name." eachrange:"..32"`
	Workspace string                    `json:"workspace" about:"A workspace from list_runtimes, a directory of the host, as /workspace. The changes of the code are proposed to a person, unless list_runtimes says otherwise. For a session, send it to create_session." range:"..32"`
	Env       map[string]operation.Text `json:"env" about:"Environment variables." range:"..1000" each:"Its value." such:"DEBUG"`
	Args      []operation.Text          `json:"args" about:"Arguments of the program." range:"..10000" each:"One argument."`
	Stdin     string                    `json:"stdin" about:"Text for its standard input. Default: empty."`
	Files     fileArgs                  `json:"files" about:"Files to put into the working directory first: name to content, such as {\"data.csv\": \"a,b\\n1,2\"}. Send binary content as a data URL: \"data:;base64,iVBORw0...\". Name an earlier run's artifact by an object: {\"request_id\": \"01K...\", \"artifact\": \"data.csv\"}." range:"..1000" each:"The file's text, or a data URL with base64." such:"notes"`
	limited
	inNamespace
	Run        string       `json:"request_id" about:"Continues code that waits for tool results: its request_id." range:"..64"`
	Results    []resultArgs `json:"tool_results" about:"The results of its pending calls." range:"..128" each:"The result of one call."`
	Background bool         `json:"background" about:"Returns a request_id at once; inspect_state shows its state, and terminate_session with it as session_id ends it." default:"false"`
}

func (s *Server) executeCode(ctx context.Context, c *call, a *executeArgs) (*answer.Answer, error) {
	if a.Run != "" || len(a.Results) > 0 {
		return s.resume(ctx, c, a)
	}
	if a.Code == "" {
		return nil, operation.ArgumentError("code", "is missing or empty: send code, or request_id to continue code that waits")
	}
	q, err := buildRequest(c, a)
	if err != nil {
		return nil, err
	}
	q.Client = c.ClientName()
	if a.Background {
		return s.startBackground(ctx, q), nil
	}
	if s.hasTools(q.Namespace, q.Session) {
		return s.startWithTools(ctx, q)
	}
	if w := c.Progress.Lines(); w != nil {
		q.Stdout, q.Stderr = w, c.Progress.Lines()
	}
	q.Ask = s.ask.AskDuring(ctx, c.Message)
	_, res, err := pipeline.Do(ctx, s.cfg.Pipeline, q)
	for _, w := range res.Warnings {
		c.Warn(w.In(answer.WordsOf(c.Called.Name)))
	}
	return s.renderRun(res, err), nil
}

// buildRequest builds the pipeline's request from the arguments.
func buildRequest(c *call, a *executeArgs) (run.Request, error) {
	q := run.Request{
		Namespace: c.namespace, Language: string(a.Language), Code: normalizeSource(a.Code), Show: true,
		Where: run.Where{Session: a.Session, Backend: a.Backend},
		Reach: run.Reach{Secrets: a.Secrets, Allow: a.Allow}, HostFiles: run.HostFiles{Data: a.Data, Project: a.Workspace},
	}
	var err error
	if q.Language == "" && q.Session == "" {
		q.Language = "python"
	}
	for _, one := range a.Args {
		q.Args = append(q.Args, string(one))
	}
	b := a.Limits.bounds()
	if t := seconds(a.Timeout); t > 0 && (b.Wall == 0 || t < b.Wall) {
		b.Wall = t
	}
	q.Limits, q.Output = b.Limits, b.Output
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") { // "A=B" would set A
			return q, operation.ArgumentError("env", "%q is not a valid variable name", safetext.Clip(name, 80))
		}
		q.Env = append(q.Env, name+"="+string(a.Env[name]))
	}
	if a.Stdin != "" {
		q.Stdin = strings.NewReader(a.Stdin)
	}
	q.Inputs, err = a.Files.inputs()
	return q, err
}

// startBackground starts a run in the background.
func (s *Server) startBackground(ctx context.Context, q run.Request) *answer.Answer {
	id, _ := run.StartJob(ctx, s.cfg.Pipeline, q)
	s.store.AddRun(id)
	return &answer.Answer{
		Text: "running in the background, request_id: " + id + "\nwhat to do: inspect_state with this request_id returns its state and, when " +
			"it is done, its result; " +
			"terminate_session with it as session_id ends it",
		Facts: &answer.RunFacts{Outcome: answer.Outcome{RunIdentity: answer.RunIdentity{RequestID: id, State: "running", Namespace: q.Namespace,
			SessionID: q.Session, Language: q.Language}}},
	}
}

// toolArgs describe a function of the client that a session's code can call.
type toolArgs struct {
	Name        string          `json:"name" about:"The function's name." range:"1..64" required:"true"`
	Description string          `json:"description" about:"What it does." range:"..16384"`
	Schema      json.RawMessage `json:"input_schema" about:"JSON Schema of its arguments, an object."`
}

// resultArgs are the result of a call.
type resultArgs struct {
	ID      string          `json:"tool_use_id" about:"The call's id." range:"1..64" required:"true"`
	Content json.RawMessage `json:"content" about:"The tool's result, as JSON or plain text. With is_error, the error message."`
	IsError bool            `json:"is_error" about:"The tool failed: the code gets a ToolError." default:"false"`
}

func toolsOf(all []toolArgs) (tools []session.Tool) {
	for _, t := range all {
		tools = append(tools, session.Tool{Name: t.Name, Description: t.Description, Schema: jsonValue(t.Schema)})
	}
	return tools
}

// hasTools reports whether a session's code can call functions of the client.
func (s *Server) hasTools(namespace, id string) bool {
	if id == "" {
		return false
	}
	info, err := session.InfoOf(s.cfg.Pipeline, namespace, id)
	return err == nil && len(info.Tools) > 0
}

// startWithTools runs code that can call functions of the client, until it waits for results or ends. Between two
// calls there is no client to ask or to send progress: the result contains the output.
func (s *Server) startWithTools(ctx context.Context, q run.Request) (*answer.Answer, error) {
	id, _ := run.StartJob(ctx, s.cfg.Pipeline, q)
	return s.resumeRun(ctx, q.Namespace, id, nil)
}

// resume continues code that waits for results.
func (s *Server) resume(ctx context.Context, c *call, a *executeArgs) (*answer.Answer, error) {
	switch {
	case a.Run == "":
		return nil, operation.ArgumentError("request_id", "is missing: send tool_results for code that waits for them")
	case a.Code != "":
		return nil, operation.ArgumentError("code", "conflicts with request_id: the waiting code was sent before")
	}
	var results []run.ToolResult
	for _, r := range a.Results {
		results = append(results, run.NewToolResult(r.ID, jsonValue(r.Content), r.IsError))
	}
	return s.resumeRun(ctx, s.namespaceOf(c, a.Run), a.Run, results)
}

// resumeRun passes results to code, and waits until it needs more or ends. It ends if the client gives up.
func (s *Server) resumeRun(ctx context.Context, namespace, id string, results []run.ToolResult) (*answer.Answer, error) {
	j, err := run.Resume(ctx, s.cfg.Pipeline, namespace, id, results, nil)
	if err != nil {
		if ctx.Err() != nil {
			run.CancelJob(s.cfg.Pipeline, namespace, id)
		}
		return nil, err
	}
	if j.Result != nil {
		return s.renderRun(*j.Result, nil), nil
	}
	f := &answer.RunFacts{Outcome: answer.Outcome{RunIdentity: answer.RunIdentity{RequestID: id, State: "waiting", Namespace: j.Namespace,
		SessionID: j.Session, ToolCalls: pendingCalls(j.Calls)}}}
	text := fmt.Sprintf("the code waits for the results of %s:\n%s\nwhat to do: run them, and call execute_code with request_id %q and "+
		"tool_results: "+
		"one entry each, with tool_use_id, content, and is_error if it failed\nrequest_id: %s", answer.Count(len(j.Calls), "call"),
		callsText(f.ToolCalls), id, id)
	return &answer.Answer{Text: text, Facts: f}, nil
}
