package mcp

import (
	"context"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

const aboutTerminate = `Ends a session and all that runs in it, or kills a run in the background. Variables and files are gone; output and artifacts of earlier calls stay for a while.`

type terminateArgs struct {
	Session string `json:"session_id" about:"The session to end, or the request_id of a run in the background." range:"1..64" required:"true"`
	inNamespace
}

type endedFacts struct {
	answer.Common
	SessionID string `json:"session_id,omitempty" about:"The session that has ended."`
	RequestID string `json:"request_id,omitempty" about:"The background run that was killed."`
	Cells     int    `json:"cells" about:"How many pieces of code the session ran."`
}

func (s *Server) terminateSession(ctx context.Context, c *call, a *terminateArgs) (*answer.Answer, error) {
	id := a.Session
	namespace := s.namespaceOf(c, id)
	if _, ok := run.JobOf(s.cfg.Pipeline, namespace, id); ok {
		text := "the run in the background is done already: " + id
		if run.CancelJob(s.cfg.Pipeline, namespace, id) {
			text = "the run in the background is being ended: " + id + "\nwhat to do: inspect_state with this request_id tells when it is over"
		}
		return &answer.Answer{Text: text, Facts: &endedFacts{RequestID: id}}, nil
	}
	info, _, err := pipeline.Do(ctx, s.cfg.Pipeline, session.End{Namespace: namespace, Session: id})
	if err != nil {
		return nil, err
	}
	return &answer.Answer{
		Text:  fmt.Sprintf("session %s has ended after %s; its variables and files are gone", id, answer.Count(info.Cells, "cell")) + lateLine(info.Late),
		Facts: &endedFacts{SessionID: id, Cells: info.Cells},
	}, nil
}

// lateLine returns a line about a row written late, if any.
func lateLine(text string) string {
	if text == "" {
		return ""
	}
	return "\nnote: " + text
}
