// Package ask asks people for what policy refuses, by the dialogs of the client that calls and on the command line.
//
// A tool that needs an approval opens a question and has whoever answers first decide: the client's user in a dialog,
// or a person who types a command. A run that meets something refused asks while it goes on. Without dialogs a call
// waits a while for the command line, if its client is told how it goes on, and then returns what a person can type:
// the next call with the same arguments learns the answer.
//
// The files in order, each of which calls those behind it: ask, elicit, dialog, question.
package ask

import (
	"context"
	"log/slog"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/mcp/rpc"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// Asker asks people, by the dialogs of the client that calls and on the command line.
type Asker struct {
	Approvals *approval.Broker // nil: nobody can be asked
	Namespace string           // the only one that callers may use; "" is that there are others
	User      string           // who answers in the dialogs of clients; "" is unknown
	Log       *slog.Logger
}

// AskDuring returns what shows the user of a call's client the questions of the run that the call has
// started: see run.Request. A client that can show dialogs only between calls, as those of the
// 2026-07-28 protocol, or none at all, is told the command that a person can type; so is every client
// that wants to know how the call goes on.
func (s Asker) AskDuring(call context.Context, m *rpc.Message) func(context.Context, *approval.Pending) {
	if s.Approvals == nil {
		return nil
	}
	dialogs := make(chan struct{}, 1) // one dialog after the other
	return func(ctx context.Context, p *approval.Pending) {
		defer m.Progress.Hold(s.WaitingText(p.Question))()
		if m.Modern || !s.canElicit(call, m) {
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
		if err := s.askUser(call, m, p); err != nil && call.Err() == nil {
			s.Log.Warn("an answer of a client's user had no effect", "question", p.Question.ID, "error", err)
		}
	}
}

// WaitingFor are the questions that a run waits for.
func (s Asker) WaitingFor(run string) []approval.Question {
	if s.Approvals == nil {
		return nil
	}
	return slices.DeleteFunc(s.Approvals.Pending(), func(q approval.Question) bool { return q.Run != run })
}
