package install

import (
	"context"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
)

// Question returns the question that a person is asked before q is done, and whether it has to be asked. A
// caller with dialogs of its own can ask it first; Install asks what is not approved by then. The error is that of
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
		return approval.Question{}, pipeline.Refuse(pipeline.StageValidate, "there is a secret in what is to be installed, so nobody is asked about it", "leave it out")
	}
	return approval.Question{Kind: approval.Package, What: what, Namespace: o.Namespace, Session: o.Session, Client: q.Client}, nil
}

// permitInstall has a person approve exactly these packages, where the operator wants that.
func permitInstall(ctx context.Context, r *pipeline.Run, q Request, o packages.Order) error {
	if !r.Pipeline.Config.AskPackages || q.Typed {
		return nil
	}
	if r.Pipeline.Config.Approvals == nil {
		return pipeline.Refuse(pipeline.StageValidate, "a person must approve what is installed (packages.ask), and nobody can be asked here", "use sandboxmcp serve")
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
		return pipeline.Refuse(pipeline.StageValidate, "a person can't be asked whether this may be installed: "+err.Error(), "try again later")
	case a.Allowed:
		r.Facts["approved_by"] = strings.TrimSpace(a.User + " (" + a.By.String() + ")")
		return nil
	}
	reason := fmt.Sprintf("%s was not approved", question.What)
	if a.Reason != "" {
		reason += ": " + a.Reason
	}
	return pipeline.Refuse(pipeline.StageValidate, reason, "do without it, or have a person approve it")
}
