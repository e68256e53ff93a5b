package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// asker returns what shows the user of a call's client the questions of the run that the call has
// started: see pipeline.Request. A client that can show dialogs only between calls, as those of the
// 2026-07-28 protocol, or none at all, is told the command that a person can type; so is every client
// that wants to know how the call goes on.
func (s *Server) asker(call context.Context, c *call) func(context.Context, *approval.Pending) {
	if s.cfg.Approvals == nil {
		return nil
	}
	dialogs := make(chan struct{}, 1) // one dialog after the other
	return func(ctx context.Context, p *approval.Pending) {
		defer c.progress.hold(s.waitingText(p.Question))()
		if c.modern || !s.canElicit(call, c) {
			<-ctx.Done()
			return
		}
		// The call's context knows who asks; either one's end is the dialog's.
		call, cancel := context.WithCancel(call)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		select {
		case dialogs <- struct{}{}:
			defer func() { <-dialogs }()
		case <-call.Done():
			return
		}
		if s.outcomeOf(p) != nil {
			return
		}
		if err := s.askUser(call, c, p); err != nil && call.Err() == nil {
			s.log.Warn("an answer of a client's user had no effect", "question", p.Question.ID, "error", err)
		}
	}
}

// askUser asks in a dialog, and answers p if there is an answer.
func (s *Server) askUser(ctx context.Context, c *call, p *approval.Pending) error {
	response, err := c.elicit(ctx, dialog(p.Question))
	if err != nil {
		if ctx.Err() == nil {
			s.log.Info("a client that says it has dialogs could not be asked", "error", err)
		}
		return nil
	}
	return s.take(ctx, p, response)
}

// waitingFor are the questions that a run waits for.
func (s *Server) waitingFor(run string) []approval.Question {
	if s.cfg.Approvals == nil {
		return nil
	}
	return slices.DeleteFunc(s.cfg.Approvals.Pending(), func(q approval.Question) bool { return q.Run != run })
}

func (s *Server) waitingText(q approval.Question) string {
	return fmt.Sprintf("waiting for a person: %s (%s)", oneLine(q.What), strings.Join(s.commands(q), ", or "))
}
