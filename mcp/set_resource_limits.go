package mcp

import (
	"context"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

const aboutLimits = `Sets limits: with session_id those of a session, else what later runs of a namespace get that ask for nothing else. ` +
	`Never above the operator's caps. Returns what is now in force.`

type limitsArgs struct {
	Session string `json:"session_id" about:"The session whose limits are set. Default: the namespace's." range:"..64"`
	inNamespace
	limits
}

type limitsFacts struct {
	answer.Common
	Namespace string           `json:"namespace,omitempty" about:"The namespace whose runs, or session, they are for."`
	SessionID string           `json:"session_id,omitempty" about:"The session that they are for."`
	Limits    *pipeline.Limits `json:"limits,omitempty" about:"What is now in force."`
	Caps      *pipeline.Limits `json:"caps,omitempty" about:"The most that can be asked for."`
}

func (s *Server) setLimits(ctx context.Context, c *call, a *limitsArgs) (*answer.Answer, error) {
	f := &limitsFacts{Namespace: c.namespace, SessionID: a.Session}
	bounds, _, err := pipeline.Do(ctx, s.cfg.Pipeline, session.NewLimits{Namespace: f.Namespace, Session: f.SessionID, Bounds: a.bounds()})
	if err != nil {
		return nil, err
	}
	_, ceiling := s.cfg.Pipeline.InForce(f.Namespace)
	limits, caps := pipeline.LimitsOf(bounds), pipeline.LimitsOf(ceiling)
	f.Limits, f.Caps = &limits, &caps
	who := "a run in namespace " + f.Namespace + " that asks for nothing else"
	if f.SessionID != "" {
		who = "session " + f.SessionID
	}
	return &answer.Answer{Text: fmt.Sprintf("%s has: %s\nthe most that can be asked for: %s", who, limitsText(f.Limits), limitsText(f.Caps)), Facts: f}, nil
}
