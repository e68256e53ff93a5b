package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/pipeline/install"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

const aboutCreate = `Starts a session: a sandbox whose interpreter stays, so that variables, imports, files and background threads live on ` +
	`from one execute_code with its session_id to the next. It ends with terminate_session, or when it is idle or old.`

type createArgs struct {
	Language language `json:"language" about:"Language of the session; it can't be changed later." default:"python"`
	onBackend
	inNamespace
	Packages []string   `json:"packages" about:"Packages to install first, such as \"numpy==2.1.0\" or \"left-pad@1.3.0\"." range:"..100" each:"One package, with a version if that matters." eachrange:"..300"`
	Allow    []string   `json:"allowed_domains" about:"Hosts that its code may reach, and no others, if policy or a person agrees. Default: what the operator allows. [] is no network." range:"..100" each:"A host: \"example.com\", \"*.example.com\" or \"example.com:5432\"." eachrange:"..300"`
	Data     []string   `json:"data" about:"Names of directories of data, which list_runtimes lists: each is shown read-only as /data/NAME." range:"..32" each:"A directory's name." eachrange:"..32"`
	GitName  string     `json:"git_name" about:"Name of the author of commits that git makes in it. Default: the operator's." range:"..200"`
	GitEmail string     `json:"git_email" about:"Address of that author. Default: the operator's." range:"..200"`
	Tools    []toolArgs `json:"tools" about:"Functions of yours that its code can call, in Python and Node: from tools import NAME. execute_code then returns the calls that wait for results." range:"..128" each:"One function."`
	ToolTime float64    `json:"tool_timeout_seconds" about:"Seconds in which a call of them must be answered; the time of the code goes on meanwhile. Default: 300." range:"0.001..86400"`
	Idle     float64    `json:"idle_seconds" about:"Seconds without a call after which it ends. Default: the operator's." range:"1..604800"`
	Lifetime float64    `json:"lifetime_seconds" about:"Seconds after which it ends in any case. Default: the operator's." range:"1..604800"`
	limited
}

type sessionFacts struct {
	answer.Common
	sessionInfo
	Packages []packages.Package `json:"packages,omitempty" about:"What was installed into it."`
}

func (s *Server) createSession(ctx context.Context, c *call, a *createArgs) (*answer.Answer, error) {
	q := session.New{
		Namespace: c.namespace, Language: string(a.Language), Backend: a.Backend, Allow: a.Allow,
		Limits: a.Limits.bounds(), Idle: seconds(a.Idle), Lifetime: seconds(a.Lifetime),
		Data: a.Data, Git: pipeline.GitIdentity{Name: a.GitName, Email: a.GitEmail}, Tools: toolsOf(a.Tools), ToolTimeout: seconds(a.ToolTime),
	}
	c.Progress.Report("starting the session")
	info, _, err := pipeline.Do(ctx, s.cfg.Pipeline, q)
	if err != nil {
		return nil, err
	}
	f := &sessionFacts{sessionInfo: infoOf(info)}
	text := fmt.Sprintf("session_id: %s\n%s session in namespace %s: %s\nit ends after %s s without a call, and after %s s in any case",
		info.ID, info.Language, info.Namespace, limitsText(f.Limits), decimal(info.Idle), decimal(info.Lifetime))
	if missing := slices.DeleteFunc(slices.Clone(backends.ContainmentLayers), func(l string) bool { return slices.Contains(info.Layers, l) }); len(missing) > 0 {
		text += "\n" + answer.WithoutLayers(missing, info.Backend, info.Profile)
	}
	if len(a.Packages) > 0 {
		_, res, err := pipeline.Do(ctx, s.cfg.Pipeline, install.Request{
			Namespace: c.namespace, Session: info.ID, Language: info.Language, Packages: a.Packages, Progress: c.Progress.Report})
		if err != nil || res.Ended != backends.EndedOK {
			return s.endWithoutPackages(ctx, info, res, err), nil
		}
		f.Packages = res.Packages
		text += "\ninstalled: " + packageLine(f.Packages)
	}
	return &answer.Answer{Text: text, Facts: f}, nil
}

// endWithoutPackages ends a session whose packages could not be installed: its code would fail.
func (s *Server) endWithoutPackages(ctx context.Context, info session.Info, res pipeline.Outcome, err error) *answer.Answer {
	if _, _, closing := pipeline.Do(context.WithoutCancel(ctx), s.cfg.Pipeline, session.End{
		Namespace: info.Namespace, Session: info.ID,
	}); closing != nil {
		s.cfg.Logger.Warn("a session whose packages could not be installed can't be ended", "session", info.ID, "error", closing)
	}
	r := answer.Refusal{Reason: "the packages could not be installed, so there is no session", Denied: true,
		Remedy: "correct the packages, or create the session without them"}
	if err != nil {
		why := answer.Explain("create_session", err)
		r.Reason, r.Remedy = r.Reason+": "+why.Reason, cmp.Or(why.Remedy, r.Remedy)
		return &answer.Answer{Text: r.String(), Facts: &sessionFacts{Common: answer.Common{Refused: &r}}, Failed: true}
	}
	return &answer.Answer{Text: r.String() + "\n" + s.renderRun(res, nil).Text, Facts: &sessionFacts{Common: answer.Common{Refused: &r}}, Failed: true}
}
