package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/mcp/rpc"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// ApprovalFacts describe a question to a person.
type ApprovalFacts struct {
	answer.Common
	State     string `json:"state,omitempty" about:"approved, denied, or pending if nobody has answered yet."`
	ID        string `json:"approval_id,omitempty" about:"The question's id, by which a person can answer it."`
	What      string `json:"what,omitempty" about:"The requested permission."`
	Namespace string `json:"namespace,omitempty" about:"Its namespace."`
	Scope     string `json:"scope,omitempty" about:"Scope of an approval: time is the whole namespace, session the session only."`
	Until     string `json:"until,omitempty" about:"When an approval ends, or when an open question is denied automatically."`
	Reason    string `json:"reason,omitempty" about:"The person's reason, or why it was denied."`
	Command   string `json:"command,omitempty" about:"The command for a person to approve it."`
}

// question is the field name in a client's dialog.
const question = "approval"

// Approve asks a person: in a dialog if the client has them, and on the command line in any case. The first answer
// decides. Without dialogs, a call with progress waits for the command line; after that, or at once, it returns the
// command to type, and a later call gets the answer.
func (s Asker) Approve(ctx context.Context, m *rpc.Message, q approval.Question) (*answer.Answer, error) {
	if s.Approvals == nil {
		return nil, &pipeline.Error{Stage: pipeline.StageEgress, Denied: true,
			Reason: "nobody can be asked: approvals are off on this server",
			Remedy: pipeline.Remedy{"do without it, or have the operator allow it in the configuration"}}
	}
	q.Client = m.ClientName()
	p, err := s.Approvals.Open(ctx, q)
	if errors.Is(err, approval.ErrFull) {
		return nil, &pipeline.Error{Stage: pipeline.StageQueue, Denied: true, Reason: err.Error(),
			Remedy: pipeline.Remedy{"have a person answer them: sandboxmcp approvals lists them"}}
	}
	if err != nil {
		return nil, err
	}
	if response := s.answerInCall(ctx, m, p); response != nil {
		err := s.submit(ctx, p, response)
		return s.outcome(p), err
	}
	if done := s.outcomeOf(p); done != nil {
		return done, nil
	}
	switch {
	case !s.canElicit(ctx, m) && m.Progress == nil:
		return s.pending(p), nil
	case !s.canElicit(ctx, m):
		return s.await(ctx, m, p)
	case m.Modern:
		// The client asks its user and repeats the call with the answer and this id.
		return &answer.Answer{Ask: inputRequired(p.Question)}, nil
	}
	return s.askAndWait(ctx, m, p)
}

// maxAwait is how long a call waits for the command line. Most clients give up after 60 s even with progress, and
// their model would never see the command to type.
const maxAwait = 50 * time.Second

// await waits up to maxAwait for an answer on the command line.
func (s Asker) await(ctx context.Context, m *rpc.Message, p *approval.Pending) (*answer.Answer, error) {
	defer m.Progress.ReportWaiting(s.WaitingText(p.Question))()
	waiting, cancel := context.WithTimeout(ctx, maxAwait)
	defer cancel()
	if _, err := p.Wait(waiting); err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.outcome(p), nil
}

// answerInCall returns the answer to p from a call of the 2026-07-28 protocol, or nil.
func (s Asker) answerInCall(ctx context.Context, m *rpc.Message, p *approval.Pending) *mcp.ElicitationResult {
	if !m.Modern || !s.canElicit(ctx, m) || m.Called.State != p.Question.ID {
		return nil
	}
	var all mcp.InputResponses
	_ = json.Unmarshal(m.Called.Responses, &all) // unreadable input is no answer
	response, there := all[question]
	if !there || response.DecodeFor(mcp.MethodElicitationCreate) != nil {
		return nil
	}
	return response.Elicitation
}

// inputRequired asks the client to ask its user and to repeat the call with the answer.
func inputRequired(q approval.Question) *mcp.CallToolResult {
	return &mcp.CallToolResult{Result: mcp.Result{ResultType: mcp.ResultTypeInputRequired}, MultiRoundTripResult: mcp.MultiRoundTripResult{
		InputRequests: mcp.InputRequests{question: mcp.NewElicitationInputRequest(dialog(q))}, RequestState: q.ID,
	}}
}

// askAndWait shows a dialog, by the older protocols, until the dialog or the command line has answered.
func (s Asker) askAndWait(ctx context.Context, m *rpc.Message, p *approval.Pending) (*answer.Answer, error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = p.Wait(asking)
		cancel()
	}()
	if err := s.askUser(asking, m, p); err != nil && s.outcomeOf(p) == nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.outcome(p), nil
}

// submit hands the user's answer to the broker, which ignores it if another one came first. A dismissed dialog, or
// one accepted without a choice, is no answer.
func (s Asker) submit(ctx context.Context, p *approval.Pending, response *mcp.ElicitationResult) error {
	a, ok := readChoice(p.Question, response)
	if !ok {
		return nil
	}
	a.User = s.User
	err := s.Approvals.Answer(ctx, p.Question.ID, a)
	if errors.Is(err, approval.ErrAnswered) || errors.Is(err, approval.ErrUnknown) || errors.Is(err, approval.ErrUnrecorded) {
		return nil
	}
	return err
}

// outcome returns the answer to a question, or that it is pending.
func (s Asker) outcome(p *approval.Pending) *answer.Answer {
	if done := s.outcomeOf(p); done != nil {
		return done
	}
	return s.pending(p)
}

// outcomeOf returns the answer to a question, or nil while it is pending.
func (s Asker) outcomeOf(p *approval.Pending) *answer.Answer {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	a, err := p.Wait(now)
	switch {
	case err == nil:
		return s.decided(p, a)
	case !errors.Is(err, approval.ErrOther):
		return nil
	}
	q := p.Question
	return &answer.Answer{
		Facts: &ApprovalFacts{State: "pending", What: q.What, Namespace: q.Namespace},
		Text: fmt.Sprintf("pending: the answer about %s was for another run only\n"+
			"what to do: call this tool with the same arguments again to ask for all of the namespace", q.What),
	}
}

// decided returns the tool's answer to an answered question.
func (s Asker) decided(p *approval.Pending, a approval.Answer) *answer.Answer {
	f := &ApprovalFacts{State: "denied", ID: p.Question.ID, What: p.Question.What, Namespace: p.Question.Namespace,
		Reason: safetext.Model(a.Reason)}
	if !a.Allowed {
		return &answer.Answer{Text: deniedText(p.Question, a, answer.Commands(p.Question, s.Namespace)[1:]), Facts: f}
	}
	f.State, f.Until, f.Scope = "approved", a.Until.UTC().Format(time.RFC3339), a.Scope
	return &answer.Answer{Text: approvedText(p.Question, f), Facts: f}
}

// pending returns the tool's answer to an open question.
func (s Asker) pending(p *approval.Pending) *answer.Answer {
	q := p.Question
	f := &ApprovalFacts{State: "pending", ID: q.ID, What: q.What, Namespace: q.Namespace,
		Until: q.Expires.UTC().Format(time.RFC3339), Command: answer.ApprovingCommand(q)}
	return &answer.Answer{Facts: f, Text: pendingText(q, f, answer.Commands(q, s.Namespace))}
}

// canElicit reports whether the calling client has dialogs with forms and its answers count: an agent with its own
// token could answer for itself.
func (s Asker) canElicit(ctx context.Context, m *rpc.Message) bool {
	if i, known := identity.From(ctx); known && i.Kind != identity.Person || s.Approvals.RequiresRoot() || m.IsTask() {
		return false
	}
	return m.Client().Elicits // of a modern client: the capabilities of this call only
}

// askUser shows a dialog, and answers p if the user did.
func (s Asker) askUser(ctx context.Context, m *rpc.Message, p *approval.Pending) error {
	response, err := m.Elicit(ctx, dialog(p.Question))
	if err != nil {
		if ctx.Err() == nil {
			s.Log.Info("a client with dialogs could not be asked", "error", err)
		}
		return nil
	}
	return s.submit(ctx, p, response)
}
