package mcp

import (
	"context"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host"

	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
)

const aboutHostAccess = `Asks a person for access to the host: a command pattern, or a directory to read or write. ` +
	`The answer is approved, denied or pending, and covers exactly what was asked.`

type hostAccessArgs struct {
	Kind     string `json:"kind" about:"What is asked for: to run a command, or to read or write below a directory." oneof:"command read write" required:"true"`
	Pattern  string `json:"pattern" about:"The command, in which * stands for one word that is no option and a last ** for any more, or the directory's absolute path." range:"1..4096" required:"true"`
	Reason   string `json:"reason" about:"Why it is needed, in a sentence for the person who decides." range:"..1000"`
	Duration int    `json:"duration_seconds" about:"How long the approval is to hold." range:"60..86400" default:"3600"`
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
