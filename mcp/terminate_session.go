package mcp

import (
	"context"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"

	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

const aboutTerminate = `Ends a session and its programs, or kills a background run. Variables and files are lost; output and artifacts of earlier calls remain for a while.`

type terminateArgs struct {
	Session string `json:"session_id" about:"The session to end, or the request_id of a background run." range:"1..64" required:"true"`
	inNamespace
}

type endedFacts struct {
	answer.Common
	SessionID string               `json:"session_id,omitempty" about:"The ended session."`
	RequestID string               `json:"request_id,omitempty" about:"The killed background run."`
	Changes   *answer.ChangesFacts `json:"changes,omitempty" about:"Its changes to its workspace."`
	Cells     int                  `json:"cells" about:"Number of calls that ran code in it."`
}

func (s *Server) terminateSession(ctx context.Context, c *call, a *terminateArgs) (*answer.Answer, error) {
	id := a.Session
	namespace := s.namespaceOf(c, id)
	if _, ok := run.JobOf(s.cfg.Pipeline, namespace, id); ok {
		text := "the background run is already done: " + id
		if run.CancelJob(s.cfg.Pipeline, namespace, id) {
			text = "ending the background run: " + id + "\nwhat to do: inspect_state with this request_id shows when it has ended"
		}
		return &answer.Answer{Text: text, Facts: &endedFacts{RequestID: id}}, nil
	}
	info, _, err := pipeline.Do(ctx, s.cfg.Pipeline, session.End{Namespace: namespace, Session: id})
	if err != nil {
		return nil, err
	}
	f := &endedFacts{SessionID: id, Cells: info.Cells, Changes: answer.FactsOfChanges(info.Changes)}
	text := fmt.Sprintf("session %s has ended after %s; its variables and files are gone", id, answer.Count(info.Cells, "cell"))
	if f.Changes != nil {
		text += fmt.Sprintf("\n%s\nwhat to do: %s", f.Changes, answer.AskChanges(f.Changes.ID))
	}
	if info.ChangesFailed != "" {
		text += "\nits changes could not be stored: " + info.ChangesFailed
	}
	return &answer.Answer{Text: text + lateLine(info.Late), Facts: f}, nil
}

// lateLine returns a line about a row written late, if any.
func lateLine(text string) string {
	if text == "" {
		return ""
	}
	return "\nnote: " + text
}
