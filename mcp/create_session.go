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

const aboutCreate = `Starts a session: a sandbox whose interpreter keeps variables, imports, files and background threads ` +
	`between calls of execute_code with its session_id. It ends with terminate_session, when idle, or at its maximum lifetime.`

type createArgs struct {
	Language language `json:"language" about:"Language of the session; it can't be changed later." default:"python"`
	onBackend
	inNamespace
	Packages  []string   `json:"packages" about:"Packages to install first, such as \"numpy==2.1.0\" or \"left-pad@1.3.0\"." range:"..100" each:"One package, with a version if that matters." eachrange:"..300"`
	Allow     []string   `json:"allowed_domains" about:"The only hosts that its code may reach, if policy or a person allows them. Default: the operator's hosts. [] disables the network." range:"..100" each:"A host: \"example.com\", \"*.example.com\" or \"example.com:5432\"." eachrange:"..300"`
	Data      []string   `json:"data" about:"Names of data directories from list_runtimes, mounted read-only at /data/NAME." range:"..32" each:"A directory's name." eachrange:"..32"`
	Workspace string     `json:"workspace" about:"A workspace from list_runtimes, a directory of the host, as /workspace. Its changes are proposed to a person, unless list_runtimes says otherwise." range:"..32"`
	GitName   string     `json:"git_name" about:"Author name of git commits in the session. Default: the operator's." range:"..200"`
	GitEmail  string     `json:"git_email" about:"Email address of that author. Default: the operator's." range:"..200"`
	Tools     []toolArgs `json:"tools" about:"Client functions that its code can call, in Python and Node: from tools import NAME. execute_code then returns the calls that wait for results." range:"..128" each:"One function."`
	ToolTime  float64    `json:"tool_timeout_seconds" about:"Time limit for the result of such a call, in seconds, within the code's own time limit. Default: 300." range:"0.001..86400"`
	Idle      float64    `json:"idle_seconds" about:"Idle time in seconds after which it ends. Default: the operator's." range:"1..604800"`
	Lifetime  float64    `json:"lifetime_seconds" about:"Seconds after which it ends in any case. Default: the operator's." range:"1..604800"`
	limited
}

type sessionFacts struct {
	answer.Common
	sessionInfo
	Packages []packages.Package `json:"packages,omitempty" about:"Installed packages."`
}

func (s *Server) createSession(ctx context.Context, c *call, a *createArgs) (*answer.Answer, error) {
	q := session.New{
		Namespace: c.namespace, Language: string(a.Language), Backend: a.Backend, Allow: a.Allow,
		Limits: a.Limits.bounds(), Idle: seconds(a.Idle), Lifetime: seconds(a.Lifetime),
		Data: a.Data, Project: a.Workspace, Git: pipeline.GitIdentity{Name: a.GitName, Email: a.GitEmail}, Tools: toolsOf(a.Tools),
		ToolTimeout: seconds(a.ToolTime),
	}
	c.Progress.Report("starting the session")
	info, _, err := pipeline.Do(ctx, s.cfg.Pipeline, q)
	if err != nil {
		return nil, err
	}
	f := &sessionFacts{sessionInfo: infoOf(info)}
	text := fmt.Sprintf("session_id: %s\n%s session in namespace %s: %s\nit ends after %s s without a call, or %s s after its start",
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
		s.cfg.Logger.Warn("can't end a session whose packages could not be installed", "session", info.ID, "error", closing)
	}
	r := answer.Refusal{Reason: "the packages could not be installed, so no session was created", Denied: true,
		Remedy: "correct the packages, or create the session without them"}
	if err != nil {
		why := answer.Explain("create_session", err)
		r.Reason, r.Remedy = r.Reason+": "+why.Reason, cmp.Or(why.Remedy, r.Remedy)
		return &answer.Answer{Text: r.String(), Facts: &sessionFacts{Common: answer.Common{Refused: &r}}, Failed: true}
	}
	return &answer.Answer{Text: r.String() + "\n" + s.renderRun(res, nil).Text, Facts: &sessionFacts{Common: answer.Common{Refused: &r}}, Failed: true}
}
