package mcp

import (
	"cmp"
	"context"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/mcp/rpc"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// ordered are the tools that wait for earlier calls. A tool that ends a session must not wait.
var ordered = []string{"execute_code", "bridge_data", "install_package"}

// prepare checks the arguments of a call and enqueues it for the sessions that it uses. Models send several calls at
// once, of which the second needs the effects of the first, and the goroutines of the calls start in any order.
func (s *Server) prepare(ctx context.Context, m *rpc.Message) (context.Context, rpc.Call) {
	t := s.tool(m.Called.Name)
	c, wrong := s.check(t, m)
	ready := rpc.Call{Run: func(ctx context.Context) *mcp.CallToolResult {
		a, err := (*answer.Answer)(nil), wrong
		if err == nil {
			a, err = t.run(ctx, c)
		}
		if err != nil {
			a = answer.Failure(t.Name, err)
		}
		return a.ResultFor(s.structured(m))
	}}
	if wrong == nil && slices.Contains(ordered, t.Name) {
		place := session.Enqueue(ctx, s.cfg.Pipeline, c.namespace, t.In.Text(c.args, "session_id"), t.In.Text(c.args, "from_session_id"))
		ctx, ready.Finish = place.WithContext(ctx), place.Leave
	}
	return ctx, ready
}

// structured reports whether the calling client gets structuredContent.
func (s *Server) structured(m *rpc.Message) bool {
	return s.cfg.Structured || m.Plain || answer.ReadsStructured(m.Client().Name)
}

// call is one tool call.
type call struct {
	*rpc.Message
	args         any    // a pointer to the argument type of the tool's handler
	namespace    string // named, or that of the session
	oneNamespace bool   // the caller can't see other namespaces
}

// check checks the arguments of a tool.
func (s *Server) check(t *tool, m *rpc.Message) (*call, error) {
	args, err := t.In.Check(m.Called.Arguments)
	if err != nil {
		return nil, err
	}
	named, own := t.In.Text(args, "namespace"), s.cfg.Namespace
	c := &call{Message: m, args: args, namespace: cmp.Or(named, own), oneNamespace: named+own != ""}
	if own != "" && c.namespace != own {
		return nil, operation.ArgumentError("namespace", "this server is for namespace %q only: omit it", own)
	}
	if id := t.In.Text(args, "session_id"); !c.oneNamespace && id != "" {
		for _, info := range session.List(s.cfg.Pipeline, "") {
			if info.ID == id {
				c.namespace = info.Namespace
			}
		}
	}
	c.namespace = cmp.Or(c.namespace, "default")
	return c, nil
}

// listTools lists the tools for the calling client, by name.
func (s *Server) listTools(m *rpc.Message) (mcp.ResultMetadata, *rpc.Fault) {
	if bad := m.RefusePage(); bad != nil {
		return nil, bad
	}
	list := &mcp.ListToolsResult{Tools: []mcp.Tool{}}
	structured := s.structured(m)
	for _, t := range s.list {
		if s.cfg.ToolsOn && s.whyOff(t.Name) != nil {
			continue
		}
		if !structured {
			t.RawOutputSchema = nil
		}
		list.Tools = append(list.Tools, t)
	}
	return list, nil
}

// namespaceOf returns the namespace of a background run, or of the call if the run is unknown or out of reach.
func (s *Server) namespaceOf(c *call, id string) string {
	if !c.oneNamespace {
		for _, j := range run.Jobs(s.cfg.Pipeline, "") {
			if j.ID == id {
				return j.Namespace
			}
		}
	}
	return c.namespace
}

// do runs an effect in the pipeline, and renders its outcome.
func do[T any](ctx context.Context, s *Server, e pipeline.Effect[T], tell func(T, pipeline.Outcome) *answer.Answer) (*answer.Answer,
	error) {
	came, res, err := pipeline.Do(ctx, s.cfg.Pipeline, e)
	if err != nil {
		return nil, err
	}
	return tell(came, res), nil
}

// renderRun returns the answer about a finished run.
func (s *Server) renderRun(res pipeline.Outcome, err error) *answer.Answer {
	s.store.AddRun(res.ID)
	return s.answer.Run(res, err)
}
