package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// toolArgs describe a function of the client that a session's code can call.
type toolArgs struct {
	Name        string          `json:"name" about:"The function's name." range:"1..64" required:"true"`
	Description string          `json:"description" about:"What it does." range:"..16384"`
	Schema      json.RawMessage `json:"input_schema" about:"JSON Schema of its arguments, an object."`
}

// resultArgs are the result of a call.
type resultArgs struct {
	ID      string          `json:"tool_use_id" about:"The call's id." range:"1..64" required:"true"`
	Content json.RawMessage `json:"content" about:"What the tool returned, as JSON; what is no JSON is taken as text. With is_error, what went wrong."`
	IsError bool            `json:"is_error" about:"The tool failed: the code gets a ToolError." default:"false"`
}

// pendingCall is a call that waits for its result.
type pendingCall struct {
	ID        string `json:"id" about:"The call's id."`
	Name      string `json:"name" about:"The tool."`
	Arguments string `json:"arguments" about:"Its arguments, an object as JSON."`
}

func toolsOf(all []toolArgs) (tools []pipeline.Tool) {
	for _, t := range all {
		tools = append(tools, pipeline.Tool{Name: t.Name, Description: t.Description, Schema: jsonValue(t.Schema)})
	}
	return tools
}

// callsBack reports whether the code of a session may call functions of the client.
func (s *Server) callsBack(namespace, id string) bool {
	if id == "" {
		return false
	}
	info, err := s.cfg.Pipeline.Session(namespace, id)
	return err == nil && len(info.Tools) > 0
}

// beginCalling runs code that can call functions of the client, until it waits for results or has ended. Nobody is there to be asked or shown
// anything between two calls: what it prints is in the result.
func (s *Server) beginCalling(ctx context.Context, q pipeline.Request) (*answer, error) {
	id, _ := s.cfg.Pipeline.Begin(ctx, q)
	return s.resumeRun(ctx, q.Namespace, id, nil)
}

// resume goes on with code that waits for results.
func (s *Server) resume(ctx context.Context, c *call, a *executeArgs) (*answer, error) {
	switch {
	case a.Run == "":
		return nil, operation.Wrong("request_id", "is missing: tool_results are for code that waits for them")
	case a.Code != "":
		return nil, operation.Wrong("code", "code that waits has been sent already: leave it out with request_id")
	}
	var results []pipeline.ToolResult
	for _, r := range a.Results {
		results = append(results, pipeline.NewToolResult(r.ID, jsonValue(r.Content), r.IsError))
	}
	return s.resumeRun(ctx, s.namespaceOf(c, a.Run), a.Run, results)
}

// resumeRun gives code results, and waits until it needs more, or has ended. A client that gives up ends it.
func (s *Server) resumeRun(ctx context.Context, namespace, id string, results []pipeline.ToolResult) (*answer, error) {
	j, err := s.cfg.Pipeline.Resume(ctx, namespace, id, results, nil)
	if err != nil {
		if ctx.Err() != nil {
			s.cfg.Pipeline.CancelJob(namespace, id)
		}
		return nil, err
	}
	if j.Result != nil {
		return s.ran(*j.Result, nil), nil
	}
	f := &runFacts{outcome: outcome{RequestID: id, State: "waiting", Namespace: j.Namespace, SessionID: j.Session, ToolCalls: pendingCalls(j.Calls)}}
	text := fmt.Sprintf("the code waits for the results of %s:\n%s\nwhat to do: carry them out, and call execute_code with request_id %q and tool_results: "+
		"one entry each, with tool_use_id, content, and is_error if it failed\nrequest_id: %s", count(len(j.Calls), "call"), callsText(f.ToolCalls), id, id)
	return &answer{text: text, facts: f}, nil
}

func pendingCalls(calls []pipeline.ToolCall) (all []pendingCall) {
	for _, c := range calls {
		all = append(all, pendingCall{c.ID, c.Name, string(c.Arguments)})
	}
	return all
}

func callsText(calls []pendingCall) string {
	var lines []string
	for _, c := range calls {
		lines = append(lines, fmt.Sprintf("- %s: %s %s", c.ID, c.Name, c.Arguments))
	}
	return strings.Join(lines, "\n")
}
