package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// approvalFacts describe a question to a person.
type approvalFacts struct {
	common
	State     string `json:"state,omitempty" about:"approved, denied, or pending: nobody has answered yet."`
	ID        string `json:"approval_id,omitempty" about:"The question's id, by which a person can answer it."`
	What      string `json:"what,omitempty" about:"What was asked for."`
	Namespace string `json:"namespace,omitempty" about:"The namespace that it is for."`
	Scope     string `json:"scope,omitempty" about:"For whom an approval is: time is all of the namespace, session the session only."`
	Until     string `json:"until,omitempty" about:"When an approval ends, or when silence becomes a denial."`
	Reason    string `json:"reason,omitempty" about:"What the person said, or why it was denied."`
	Command   string `json:"command,omitempty" about:"What a person types to approve it."`
}

// question is the name under which clients are asked, and answer.
const question = "approval"

// approve asks a person: in a dialog of the client if it has them, and on the command line in any
// case. Whoever answers first decides. Without dialogs a call that tells how it goes on waits a while for the
// command line; after that, or at once, it returns what a person can type, and another call learns the answer.
func (s *Server) approve(ctx context.Context, c *call, q approval.Question) (*answer, error) {
	if s.cfg.Approvals == nil {
		return nil, &pipeline.Error{Stage: pipeline.StageEgress, Denied: true,
			Reason: "nobody can be asked: this server takes no approvals", Remedy: pipeline.Remedy{"do without, or have the operator allow it in the configuration"}}
	}
	q.Client = c.clientName()
	p, err := s.cfg.Approvals.Open(ctx, q)
	if errors.Is(err, approval.ErrFull) {
		return nil, &pipeline.Error{Stage: pipeline.StageQueue, Denied: true, Reason: err.Error(), Remedy: pipeline.Remedy{"have a person answer them: sandboxmcp approvals lists them"}}
	}
	if err != nil {
		return nil, err
	}
	if response := s.answered(ctx, c, p); response != nil {
		err := s.take(ctx, p, response)
		return s.outcome(p), err
	}
	if done := s.outcomeOf(p); done != nil {
		return done, nil
	}
	switch {
	case !s.canElicit(ctx, c):
		return s.await(ctx, c, p)
	case c.modern:
		// The client asks its user and calls again with the answer and this id.
		return &answer{ask: inputRequired(p.Question)}, nil
	}
	return s.dialogue(ctx, c, p)
}

// maxAwait is how long a call waits for the command line. Most clients give up after 60 s, whatever is told them
// meanwhile, and then the model has not even learned what a person can type.
const maxAwait = 50 * time.Second

// await waits for the command line, if the client wants to know how the call goes on.
func (s *Server) await(ctx context.Context, c *call, p *approval.Pending) (*answer, error) {
	if c.progress == nil {
		return s.pending(p), nil
	}
	defer c.progress.hold(s.waitingText(p.Question))()
	waiting, cancel := context.WithTimeout(ctx, s.maxAwait)
	defer cancel()
	if _, err := p.Wait(waiting); err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.outcome(p), nil
}

// answered returns the answer to p that came with a call of the 2026-07-28 protocol, or nil.
func (s *Server) answered(ctx context.Context, c *call, p *approval.Pending) *mcp.ElicitationResult {
	if !c.modern || !s.canElicit(ctx, c) || c.called.State != p.Question.ID {
		return nil
	}
	var all mcp.InputResponses
	_ = json.Unmarshal(c.called.Responses, &all) // what can't be read is no answer
	response, there := all[question]
	if !there || response.DecodeFor(mcp.MethodElicitationCreate) != nil {
		return nil
	}
	return response.Elicitation
}

// inputRequired asks the client to ask its user, and to call again with what that says.
func inputRequired(q approval.Question) *mcp.CallToolResult {
	return &mcp.CallToolResult{Result: mcp.Result{ResultType: mcp.ResultTypeInputRequired}, MultiRoundTripResult: mcp.MultiRoundTripResult{
		InputRequests: mcp.InputRequests{question: mcp.NewElicitationInputRequest(dialog(q))}, RequestState: q.ID,
	}}
}

// dialogue asks in the way of the older protocols, until the command line has answered.
func (s *Server) dialogue(ctx context.Context, c *call, p *approval.Pending) (*answer, error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = p.Wait(asking)
		cancel()
	}()
	if err := s.askUser(asking, c, p); err != nil && s.outcomeOf(p) == nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.outcome(p), nil
}

// take hands the answer of a client's user to the broker, also when somebody else was faster. Dismissed, or accepted without a word, is no answer.
func (s *Server) take(ctx context.Context, p *approval.Pending, response *mcp.ElicitationResult) error {
	a, ok := decision(p.Question, response)
	if !ok {
		return nil
	}
	a.User = s.cfg.User
	err := s.cfg.Approvals.Answer(ctx, p.Question.ID, a)
	if errors.Is(err, approval.ErrAnswered) || errors.Is(err, approval.ErrUnknown) || errors.Is(err, approval.ErrUnrecorded) {
		return nil
	}
	return err
}

// outcome returns the answer to a question, or that it waits.
func (s *Server) outcome(p *approval.Pending) *answer {
	if done := s.outcomeOf(p); done != nil {
		return done
	}
	return s.pending(p)
}

// outcomeOf returns the answer to a question, or nil if there is none yet.
func (s *Server) outcomeOf(p *approval.Pending) *answer {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	a, err := p.Wait(now)
	switch {
	case err == nil:
		return s.settled(p, a)
	case !errors.Is(err, approval.ErrOther):
		return nil
	}
	q := p.Question
	return &answer{
		facts: &approvalFacts{State: "pending", What: q.What, Namespace: q.Namespace},
		text: fmt.Sprintf("pending: a run asked for %s, too, and was answered for itself only\n"+
			"what to do: call this tool with the same arguments again to ask for all of the namespace", q.What),
	}
}

// settled returns the answer to a tool whose question was answered.
func (s *Server) settled(p *approval.Pending, a approval.Answer) *answer {
	f := &approvalFacts{State: "denied", ID: p.Question.ID, What: p.Question.What, Namespace: p.Question.Namespace, Reason: readable(a.Reason)}
	if !a.Allowed {
		return &answer{text: deniedText(p.Question, a, s.commands(p.Question)[1:]), facts: f}
	}
	f.State, f.Until, f.Scope = "approved", a.Until.UTC().Format(time.RFC3339), a.Scope
	return &answer{text: approvedText(p.Question, f), facts: f}
}

// pending returns the answer to a tool whose question still waits.
func (s *Server) pending(p *approval.Pending) *answer {
	q := p.Question
	f := &approvalFacts{State: "pending", ID: q.ID, What: q.What, Namespace: q.Namespace,
		Until: q.Expires.UTC().Format(time.RFC3339), Command: approvingCommand(q)}
	return &answer{facts: f, text: pendingText(q, f, s.commands(q))}
}

// canElicit reports whether the client that calls shows dialogs with forms, and what it answers then counts: an agent that has a token
// of its own could answer for itself.
func (s *Server) canElicit(ctx context.Context, c *call) bool {
	if i, known := identity.From(ctx); known && i.Kind != identity.Person || s.cfg.Approvals.OnlyRoot() || c.task != nil {
		return false
	}
	return c.client().elicits // of a modern client what this call says, and nothing else
}

// clientName returns the name that the client gave itself: for people to look at, nothing more.
func (m *message) clientName() string {
	i := m.client()
	return clip(readable(strings.TrimSpace(i.name+" "+i.version)), 200)
}
