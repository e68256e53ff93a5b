package mcp

import (
	"context"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host"

	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
)

const aboutHostAccess = `Asks a person for access to the host: a command pattern, or a directory to read or write. ` +
	`The answer is approved, denied or pending, and covers exactly this request.`

type hostAccessArgs struct {
	Kind     string `json:"kind" about:"The permission: run a command, or read or write below a directory." oneof:"command read write" required:"true"`
	Pattern  string `json:"pattern" about:"The directory's absolute path, or the command: * matches one word that is not an option, a final ** any further words." range:"1..4096" required:"true"`
	Reason   string `json:"reason" about:"Why it is needed, in one sentence for the person." range:"..1000"`
	Duration int    `json:"duration_seconds" about:"Duration of the approval." range:"60..86400" default:"3600"`
	inNamespace
}

func (s *Server) requestHostAccess(ctx context.Context, c *call, a *hostAccessArgs) (*answer.Answer, error) {
	q, err := host.AskFor(ctx, s.cfg.Pipeline, c.namespace, a.Kind, a.Pattern, a.Reason)
	if err != nil {
		return nil, err
	}
	q.For = time.Duration(a.Duration) * time.Second
	return s.ask.Approve(ctx, c.Message, q)
}
