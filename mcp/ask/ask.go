// Package ask asks people for permissions, in dialogs of the calling client and on the command line.
//
// A tool that needs an approval opens a question. The first answer decides: the client's user in a dialog, or a
// person who types a command. A run asks about a refused host while it continues. Without dialogs, a call waits for
// the command line if its client takes progress, and then returns the command that a person can type. The next call
// with the same arguments gets the answer.
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

// Asker asks people, in dialogs of the calling client and on the command line.
type Asker struct {
	Approvals *approval.Broker // nil: nobody can be asked
	Namespace string           // the only namespace that callers may use; "" allows several
	User      string           // the person who answers the clients' dialogs; "" is unknown
	Log       *slog.Logger
}

// AskDuring returns a function that asks the client's user the questions of a call's run: see run.Request. A client
// without dialogs during a call, such as those of the 2026-07-28 protocol, gets the command that a person can type,
// and so does every client that takes progress.
func (s Asker) AskDuring(call context.Context, m *rpc.Message) func(context.Context, *approval.Pending) {
	if s.Approvals == nil {
		return nil
	}
	dialogs := make(chan struct{}, 1) // one dialog at a time
	return func(ctx context.Context, p *approval.Pending) {
		defer m.Progress.ReportWaiting(s.WaitingText(p.Question))()
		if m.Modern || !s.canElicit(call, m) {
			<-ctx.Done()
			return
		}
		// The call's context has the caller's identity. The end of either context ends the dialog.
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
			s.Log.Warn("the answer of a client's user had no effect", "question", p.Question.ID, "error", err)
		}
	}
}

// WaitingFor returns the questions that a run waits for.
func (s Asker) WaitingFor(run string) []approval.Question {
	if s.Approvals == nil {
		return nil
	}
	return slices.DeleteFunc(s.Approvals.Pending(), func(q approval.Question) bool { return q.Run != run })
}
