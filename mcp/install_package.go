package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/install"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/mcp/ask"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
)

const aboutInstall = `Installs Python or Node packages into a session, or for all later runs of the namespace. Only this step uses the network. ` +
	`Install scripts run only if the operator allows it. Returns exact versions; audit_execution has their hashes.`

type installArgs struct {
	Packages []string `json:"packages" about:"Packages in the package manager's notation: \"requests==2.32.3\", \"numpy>=2\", \"left-pad@1.3.0\"." range:"1..100" each:"One package, with a version if that matters." eachrange:"1..300" required:"true"`
	Language language `json:"language" about:"The language of the packages. Default: the session's language, or python." oneof:"python node"`
	Session  string   `json:"session_id" about:"The session to install into. Default: all later runs of the namespace." range:"..64"`
	Backend  string   `json:"backend" about:"The isolation backend of later runs. Default: the session's, or the operator's choice." oneof:"process podman docker"`
	inNamespace
}

type installFacts struct {
	answer.Common
	Approval  *permissionFacts   `json:"approval,omitempty" about:"The approval, if one is needed: nothing is installed while it is pending or denied."`
	RequestID string             `json:"request_id,omitempty" about:"Its id in the audit log."`
	Ended     string             `json:"ended,omitempty" about:"How the package manager ended: ok, exit, timeout and so on."`
	ExitCode  int                `json:"exit_code" about:"Its exit code; 0 is success."`
	Packages  []packages.Package `json:"packages,omitempty" about:"Installed packages, with dependencies."`
	Output    string             `json:"output,omitempty" about:"The package manager's output, if it failed."`
	TotalMS   float64            `json:"total_ms" about:"Duration in milliseconds."`
}

// permissionFacts are the approval's facts in another answer.
type permissionFacts struct {
	State   string `json:"state,omitempty" about:"denied, or pending if nobody has answered yet."`
	ID      string `json:"approval_id,omitempty" about:"The question's id, by which a person can answer it."`
	What    string `json:"what,omitempty" about:"The requested permission."`
	Until   string `json:"until,omitempty" about:"When it is denied automatically."`
	Reason  string `json:"reason,omitempty" about:"The person's reason, or why it was denied."`
	Command string `json:"command,omitempty" about:"The command for a person to approve it."`
}

func (s *Server) installPackage(ctx context.Context, c *call, a *installArgs) (*answer.Answer, error) {
	q := install.Request{Namespace: c.namespace, Session: a.Session, Language: string(a.Language), Packages: a.Packages, Backend: a.Backend,
		Progress: c.Progress.Report}
	if q.Language == "" && q.Session == "" {
		q.Language = "python"
	}
	q.Client, q.Ask = c.ClientName(), s.ask.AskDuring(ctx, c.Message)
	if wait, err := s.permission(ctx, c, q); wait != nil || err != nil {
		return wait, err
	}
	_, res, err := pipeline.Do(ctx, s.cfg.Pipeline, q)
	if err != nil {
		return nil, err
	}
	f := &installFacts{RequestID: res.ID, Ended: res.Ended, ExitCode: res.ExitCode, Packages: res.Packages,
		TotalMS: float64(res.Timings.Total) / 1000}
	if res.Ended == backends.EndedOK {
		return &answer.Answer{Text: fmt.Sprintf("installed %s: %s\nrequest_id: %s", answer.Count(len(f.Packages), "package"),
			packageLine(f.Packages), res.ID), Facts: f}, nil
	}
	f.Output = answer.Excerpt(strings.TrimSpace(res.Stdout+"\n"+res.Stderr), answer.MaxStreams/2, "")
	text := fmt.Sprintf("the package manager failed (%s, exit code %d), and nothing was installed:\n%s", res.Ended, res.ExitCode, f.Output)
	for _, h := range res.Hints {
		text += "\nhint: " + h.In(answer.WordsOf(c.Called.Name))
	}
	return &answer.Answer{Text: text + "\nrequest_id: " + res.ID, Facts: f}, nil
}

// permission asks a person if an installation needs approval. It returns nil if the installation may continue.
func (s *Server) permission(ctx context.Context, c *call, q install.Request) (*answer.Answer, error) {
	question, must, err := install.Question(ctx, s.cfg.Pipeline, q)
	if !must || err != nil {
		return nil, err
	}
	response, err := s.ask.Approve(ctx, c.Message, question)
	if err != nil || response.Ask != nil {
		return response, err
	}
	f, _ := response.Facts.(*ask.ApprovalFacts)
	if f.State == "approved" {
		return nil, nil
	}
	return &answer.Answer{Text: response.Text, Facts: &installFacts{Approval: &permissionFacts{f.State, f.ID, f.What, f.Until, f.Reason,
		f.Command}}}, nil
}

// packageLine lists the installed packages, requested ones first.
func packageLine(list []packages.Package) string {
	var asked, needed []string
	for _, p := range list {
		one := p.Name + " " + p.Version
		if p.Requested {
			asked = append(asked, one)
		} else {
			needed = append(needed, one)
		}
	}
	if len(needed) > answer.MaxEntries {
		needed = append(needed[:answer.MaxEntries:answer.MaxEntries], fmt.Sprintf("%d more", len(needed)-answer.MaxEntries))
	}
	text := strings.Join(asked, ", ")
	if needed != nil {
		text += "; dependencies: " + strings.Join(needed, ", ")
	}
	return text
}
