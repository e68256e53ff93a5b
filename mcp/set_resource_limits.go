package mcp

import (
	"context"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

const aboutLimits = `Sets limits: of a session with session_id, otherwise the defaults of later runs of a namespace. ` +
	`The operator's caps are the maximum. Returns the limits now in force.`

type limitsArgs struct {
	Session string `json:"session_id" about:"The session to limit. Default: later runs of the namespace." range:"..64"`
	inNamespace
	limits
}

type limitsFacts struct {
	answer.Common
	Namespace string           `json:"namespace,omitempty" about:"The namespace of the runs or the session."`
	SessionID string           `json:"session_id,omitempty" about:"The limited session."`
	Limits    *pipeline.Limits `json:"limits,omitempty" about:"The limits now in force."`
	Caps      *pipeline.Limits `json:"caps,omitempty" about:"The maximum limits."`
}

func (s *Server) setLimits(ctx context.Context, c *call, a *limitsArgs) (*answer.Answer, error) {
	f := &limitsFacts{Namespace: c.namespace, SessionID: a.Session}
	bounds, _, err := pipeline.Do(ctx, s.cfg.Pipeline, session.NewLimits{Namespace: f.Namespace, Session: f.SessionID, Bounds: a.bounds()})
	if err != nil {
		return nil, err
	}
	_, ceiling := s.cfg.Pipeline.LimitsInForce(f.Namespace)
	limits, caps := pipeline.LimitsOf(bounds), pipeline.LimitsOf(ceiling)
	f.Limits, f.Caps = &limits, &caps
	who := "runs in namespace " + f.Namespace + " by default"
	if f.SessionID != "" {
		who = "session " + f.SessionID
	}
	return &answer.Answer{Text: fmt.Sprintf("limits of %s: %s\nmaximum: %s", who, limitsText(f.Limits), limitsText(f.Caps)), Facts: f}, nil
}
