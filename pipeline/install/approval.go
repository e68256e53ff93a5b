package install

import (
	"context"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
)

// Question returns the question for a person before q is performed, and whether it must be asked. A caller with its
// own dialogs can ask it first; Install asks for packages that are not approved by then. The error is that of
// Install.
func Question(ctx context.Context, p *pipeline.Pipeline, q Request) (approval.Question, bool, error) {
	if !p.Config.AskPackages || q.Typed {
		return approval.Question{}, false, nil
	}
	r := p.NewRun(q.Subject())
	o, err := checkInstall(ctx, r, q)
	if err != nil {
		return approval.Question{}, false, err
	}
	question, err := installQuestion(r, q, o)
	return question, err == nil, err
}

func installQuestion(r *pipeline.Run, q Request, o packages.Order) (approval.Question, error) {
	what := o.Language + ": " + strings.Join(o.Packages, ", ")
	if o.Backend.Name() != r.Pipeline.Config.Backends[0].Name() {
		what += " (for " + o.Backend.Name() + ")"
	}
	if r.Clean(what) != what {
		return approval.Question{}, pipeline.Refuse(pipeline.StageValidate, "the packages contain a secret, so no person is asked about them",
			"leave it out")
	}
	return approval.Question{Kind: approval.Package, What: what, Namespace: o.Namespace, Session: o.Session, Client: q.Client}, nil
}

// permitInstall asks a person to approve exactly these packages, if the operator requires it.
func permitInstall(ctx context.Context, r *pipeline.Run, q Request, o packages.Order) error {
	if !r.Pipeline.Config.AskPackages || q.Typed {
		return nil
	}
	if r.Pipeline.Config.Approvals == nil {
		return pipeline.Refuse(pipeline.StageValidate, "a person must approve installs (packages.ask), and this process can't ask",
			"use sandboxmcp serve")
	}
	question, err := installQuestion(r, q, o)
	if err != nil {
		return err
	}
	a, err := r.Pipeline.Config.Approvals.Ask(ctx, question, q.Ask)
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return pipeline.Refuse(pipeline.StageValidate, "a person can't be asked about this install: "+err.Error(), "try again later")
	case a.Allowed:
		r.Facts["approved_by"] = strings.TrimSpace(a.User + " (" + a.By.String() + ")")
		return nil
	}
	reason := fmt.Sprintf("%s was not approved", question.What)
	if a.Reason != "" {
		reason += ": " + a.Reason
	}
	return pipeline.Refuse(pipeline.StageValidate, reason, "continue without it, or ask a person to approve it")
}
