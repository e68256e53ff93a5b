package mcp

import (
	"cmp"
	"context"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/web"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

func (t tool) annotations() mcp.ToolAnnotation {
	on := func(h operation.Hints) *bool { b := t.Hints&h != 0; return &b }
	return mcp.ToolAnnotation{ReadOnlyHint: on(operation.Reads), DestructiveHint: on(operation.Destroys), IdempotentHint: on(operation.Repeats), OpenWorldHint: on(operation.ReachesOut)}
}

// policyOff is the reason why a group of tools is refused, with the setting that turns it on.
type policyOff struct{ reason, setting, instead string }

var (
	webOff  = policyOff{"web tools are off", "web.enabled: true", "programs reach hosts in allowed_domains of execute_code"}
	hostOff = policyOff{"host access is off", "host.enabled: true", "pass files to a sandbox with files of execute_code"}
)

// whyOff returns why a tool refuses every call, or nil. It never changes: the server reads its configuration at the
// start.
func (s *Server) whyOff(name string) *policyOff {
	p := s.cfg.Pipeline
	switch {
	case strings.HasPrefix(name, "host_"), strings.HasSuffix(name, "_host_access"):
		if p == nil || !host.Enabled(p) {
			return &hostOff
		}
	case name == "web_search", name == "fetch_webpage", name == "browser_fetch":
		if p == nil || !web.IsEnabled(p) {
			return &webOff
		}
	}
	return nil
}

// shortEntry returns the entry of a tool that is turned off. It is short, since models read it in each conversation.
func (w policyOff) shortEntry(t tool) mcp.Tool {
	return mcp.Tool{
		Name: t.Name, Title: t.Title, Description: "Off until a person sets " + w.setting + " in the configuration. " + t.Title + ".",
		RawInputSchema: t.In.Brief(), Annotations: t.annotations(),
	}
}

// unlessOff returns run, or a handler that refuses each call of a tool that policy has turned off, and records the
// argument named by what.
func unlessOff[A any](s *Server, tool, what string, run handler[A]) handler[A] {
	why := s.whyOff(tool)
	if why == nil {
		return run
	}
	in := operation.FormOf[A]()
	return func(ctx context.Context, c *call, a *A) (*answer.Answer, error) {
		_, _, err := pipeline.Do(ctx, s.cfg.Pipeline, pipeline.Denial{Tool: tool, Namespace: c.namespace, What: cmp.Or(in.Text(a, what), tool),
			Reason: why.reason, Remedy: pipeline.Remedy{"a person has to set " + why.setting + " in the configuration; " + why.instead}})
		return nil, err
	}
}
