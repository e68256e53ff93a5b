package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/mcp/ask"
	"github.com/sandboxmcp/sandboxmcp/mcp/resource"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
)

// findChanges returns a change set by its id, or what a session has changed so far; nil if nothing differs.
func (s *Server) findChanges(ctx context.Context, namespace, id string) (*changes.Set, error) {
	info, err := session.InfoOf(s.cfg.Pipeline, namespace, id)
	last := info.Changes
	if err == nil && info.State != "dead" {
		if last, _, err = pipeline.Do(ctx, s.cfg.Pipeline, session.ProposeChanges{Namespace: namespace, Session: id}); err != nil {
			return nil, err
		}
	}
	switch {
	case err != nil: // it is not a session
	case last == nil:
		return nil, nil
	default:
		id = last.ID
	}
	set, err := workspace.Get(s.cfg.Pipeline, namespace, id)
	return &set, err
}

// showChanges returns a part of a change set's difference, without the secrets in it.
func (s *Server) showChanges(ctx context.Context, c *call, q *artifactsArgs) (*answer.Answer, error) {
	id := q.Run
	if id == "" {
		id = q.Session
	}
	if id == "" {
		return nil, operation.ArgumentError("request_id", "is missing: send it, or session_id")
	}
	set, err := s.findChanges(ctx, c.namespace, id)
	if err != nil {
		return nil, err
	}
	if set == nil {
		return &answer.Answer{Text: "no changes to the workspace", Facts: &artifactsFacts{Name: answer.ChangesName}}, nil
	}
	text, err := workspace.Diff(ctx, s.cfg.Pipeline, *set, nil)
	if err != nil {
		return nil, err
	}
	if q.Offset > int64(len(text)) {
		return nil, operation.ArgumentError("offset", "%d is past the end: %s has %d bytes", q.Offset, answer.ChangesName, len(text))
	}
	part := string(resource.WholeRunes([]byte(text[q.Offset:min(q.Offset+q.MaxBytes, int64(len(text)))])))
	f := &artifactsFacts{Name: answer.ChangesName, MIME: "text/x-diff", Part: part, Offset: q.Offset, Total: int64(len(text)),
		URI: answer.RunURI(set.ID, answer.ChangesName), Changes: answer.FactsOfChanges(set)}
	lines := []string{f.Changes.String()}
	if q.Offset == 0 {
		lines = append(lines, withheldPaths(*set)...)
	}
	lines = append(lines, strings.TrimSuffix(safetext.Model(part), "\n"))
	if next := q.Offset + int64(len(part)); next < f.Total {
		f.Next = next
		lines = append(lines, fmt.Sprintf("[%d bytes follow: call again with \"request_id\": %q, \"offset\": %d]", f.Total-next, set.ID, next))
	}
	return &answer.Answer{Text: strings.Join(lines, "\n"), Facts: f}, nil
}

// withheldPaths lists the paths of a change set that are not applied with the others, each with the reason.
func withheldPaths(set changes.Set) (lines []string) {
	for _, e := range set.Entries {
		switch {
		case len(lines) == maxNamed:
			return append(lines, "- and more")
		case e.Refused != "":
			lines = append(lines, fmt.Sprintf("- %s is refused: %s", safetext.Model(e.Path), e.Refused))
		case e.Held != "":
			lines = append(lines, fmt.Sprintf("- %s is held back: %s", safetext.Model(e.Path), e.Held))
		}
	}
	return lines
}

// requestChanges asks a person to apply a change set, and says whether it was applied.
func (s *Server) requestChanges(ctx context.Context, c *call, a *hostAccessArgs) (*answer.Answer, error) {
	asked := workspace.FindQuestion(s.cfg.Pipeline, c.namespace, a.Pattern)
	if asked == nil {
		set, err := s.findChanges(ctx, c.namespace, a.Pattern)
		if err != nil {
			return nil, err
		}
		if set == nil || set.Status == changes.StatusApplied {
			return s.nothingToApply(c.namespace, a.Pattern, set)
		}
		q := approval.Question{Namespace: c.namespace, Reason: a.Reason}
		if err := host.RedactQuestion(ctx, s.cfg.Pipeline, &q); err != nil {
			return nil, err
		}
		if asked, err = workspace.Ask(ctx, s.cfg.Pipeline, c.namespace, set.ID, q.Reason, c.ClientName()); err != nil {
			return nil, err
		}
	}
	answered, err := s.ask.Approve(ctx, c.Message, asked.Question)
	if err != nil {
		return nil, err
	}
	if f, is := answered.Facts.(*ask.ApprovalFacts); !is || f.State != "approved" {
		return answered, nil
	}
	select {
	case <-asked.Done():
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if asked.Err != nil {
		return nil, asked.Err
	}
	answered.Text += fmt.Sprintf("\napplied %s", answer.Count(len(asked.Applied.Paths), "path"))
	if left := asked.Applied.Left; len(left) > 0 {
		answered.Text += fmt.Sprintf("; %s held back or refused: a person applies what is held back by its name: sandboxmcp changes "+
			"apply %s PATH", answer.Count(len(left), "path"), asked.Applied.Set.ID)
	}
	return answered, nil
}

// nothingToApply says that a change set was applied already, or that there is none.
func (s *Server) nothingToApply(namespace, id string, set *changes.Set) (*answer.Answer, error) {
	if set == nil {
		filter := changes.Filter{Namespace: namespace, Session: id, Status: changes.StatusApplied}
		if applied, err := workspace.List(s.cfg.Pipeline, filter); err == nil && len(applied) > 0 {
			set = &applied[0]
		}
	}
	if set == nil {
		return nil, &pipeline.Error{Stage: pipeline.StageValidate, Denied: true, Reason: "the session has changed nothing in its workspace"}
	}
	f := &ask.ApprovalFacts{State: "approved", What: answer.FactsOfChanges(set).String(), Namespace: set.Namespace}
	return &answer.Answer{Text: "approved: " + f.What, Facts: f}, nil
}

// changesOf returns the difference of a change set of a namespace, or of any for "".
func changesOf(p *pipeline.Pipeline, namespace, id string) (string, error) {
	set, err := workspace.Find(p, id, func(own string) bool { return namespace == "" || own == namespace })
	if err != nil {
		return "", err
	}
	return workspace.Diff(context.Background(), p, set, nil)
}
