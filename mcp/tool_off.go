package mcp

import (
	"cmp"
	"context"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// policyOff is why a group of tools is refused, and how an operator changes that.
type policyOff struct{ reason, remedy string }

var (
	webOff  = policyOff{"web tools are off", "a person has to set web.enabled: true in the configuration; a program can reach hosts with allowed_domains of execute_code"}
	hostOff = policyOff{"host access is off", "a person has to set host.enabled: true in the configuration; files come into a sandbox with files of execute_code"}
)

// off is a tool that policy forbids. What it was asked for is in the audit log.
func (s *Server) off(why policyOff, what string) func(context.Context, *call) (*answer, error) {
	return func(ctx context.Context, c *call) (*answer, error) {
		namespace, err := s.namespace(c.args, "")
		if err != nil {
			return nil, err
		}
		name := c.request.Params.Name
		return nil, s.cfg.Pipeline.Deny(ctx, pipeline.Wish{Tool: name, Namespace: namespace, What: cmp.Or(c.text(what), name)}, why.reason, why.remedy)
	}
}
