package mcp

import (
	"context"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"

	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
)

const aboutHostAccess = `Asks a person for access to the host: a command pattern, a directory to read or write, or to apply changes to a workspace. ` +
	`The answer is approved, denied or pending, and covers exactly this request.`

type hostAccessArgs struct {
	Kind     string `json:"kind" about:"The permission: run a command, read or write below a directory, or apply changes to a workspace." oneof:"command read write changes" required:"true"`
	Pattern  string `json:"pattern" about:"The directory's absolute path, or the command: * matches one word that is not an option, a final ** any further words. For changes: the id of a change set, or the session_id whose changes so far are meant." range:"1..4096" required:"true"`
	Reason   string `json:"reason" about:"Why it is needed, in one sentence for the person." range:"..1000"`
	Duration int    `json:"duration_seconds" about:"Duration of the approval." range:"60..86400" default:"3600"`
	inNamespace
}

func (s *Server) requestHostAccess(ctx context.Context, c *call, a *hostAccessArgs) (*answer.Answer, error) {
	if a.Kind == approval.Changes {
		return s.requestChanges(ctx, c, a)
	}
	q, err := host.AskFor(ctx, s.cfg.Pipeline, c.namespace, a.Kind, a.Pattern, a.Reason)
	if err != nil {
		return nil, err
	}
	q.For = time.Duration(a.Duration) * time.Second
	return s.ask.Approve(ctx, c.Message, q)
}
