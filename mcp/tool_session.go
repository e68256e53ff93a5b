package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

const (
	aboutCreate = `Starts a session: a sandbox whose interpreter stays, so that variables, imports, files and background threads live on ` +
		`from one execute_code with its session_id to the next. It ends with terminate_session, or when it is idle or old.`
	aboutTerminate = `Ends a session and all that runs in it, or kills a run in the background. Variables and files are gone; output and artifacts of earlier calls stay for a while.`
)

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

type terminateArgs struct {
	Session string `json:"session_id" about:"The session to end, or the request_id of a run in the background." range:"1..64" required:"true"`
	inNamespace
}

type sessionFacts struct {
	common
	sessionInfo
	Packages []packages.Package `json:"packages,omitempty" about:"What was installed into it."`
}

// sessionInfo describes a session.
type sessionInfo struct {
	SessionID string          `json:"session_id,omitempty" about:"The session's id."`
	Namespace string          `json:"namespace,omitempty" about:"The namespace that it belongs to."`
	Language  string          `json:"language,omitempty" about:"What it runs."`
	Backend   string          `json:"backend,omitempty" about:"What contains it."`
	Profile   string          `json:"profile,omitempty" about:"The containment profile."`
	State     string          `json:"state,omitempty" about:"idle, busy or dead."`
	Created   string          `json:"created,omitempty" about:"When it began."`
	Used      string          `json:"last_used,omitempty" about:"When it was used last."`
	Idle      float64         `json:"idle_seconds,omitempty" about:"Seconds without a call after which it ends."`
	Lifetime  float64         `json:"lifetime_seconds,omitempty" about:"Seconds after which it ends in any case."`
	Cells     int             `json:"cells" about:"How many pieces of code it has run."`
	Restarts  []restart       `json:"restarts,omitempty" about:"When and why its variables were lost."`
	Ended     string          `json:"ended,omitempty" about:"Why it is dead: closed, idle, lifetime, oom, signal, limit or failed."`
	Tools     []string        `json:"tools,omitempty" about:"Functions of the client that its code can call."`
	Limits    *session.Limits `json:"limits,omitempty" about:"What it may use."`
	Layers    []string        `json:"layers,omitempty" about:"Layers of containment that hold it."`
}

type restart struct {
	Time string `json:"time" about:"When."`
	Why  string `json:"why" about:"Why."`
}

func limitsText(l *session.Limits) string {
	return fmt.Sprintf("%d MB of memory, %s CPU, %s s a run, %d processes, %s of output, %d MB of disk",
		l.RAM, decimal(l.CPU), decimal(l.Wall), l.Processes, size(l.Output), l.Disk)
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func infoOf(i session.Info) sessionInfo {
	f := sessionInfo{
		SessionID: i.ID, Namespace: i.Namespace, Language: i.Language, Backend: i.Backend, Profile: i.Profile, State: i.State,
		Created: stamp(i.Created), Used: stamp(i.Used), Idle: i.Idle, Lifetime: i.Lifetime, Cells: i.Cells, Ended: i.Ended, Tools: i.Tools,
		Limits: &i.Limits, Layers: i.Layers,
	}
	for _, r := range i.Restarts {
		f.Restarts = append(f.Restarts, restart{stamp(r.Time), r.Why})
	}
	return f
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func (s *Server) createSession(ctx context.Context, c *call, a *createArgs) (*answer, error) {
	q := pipeline.NewSession{
		Namespace: c.namespace, Language: string(a.Language), Backend: a.Backend, Allow: a.Allow,
		Limits: a.Limits.bounds(), Idle: seconds(a.Idle), Lifetime: seconds(a.Lifetime),
		Data: a.Data, Git: pipeline.GitIdentity{Name: a.GitName, Email: a.GitEmail}, Tools: toolsOf(a.Tools), ToolTimeout: seconds(a.ToolTime),
	}
	c.progress.say("starting the session")
	info, _, err := pipeline.Do(ctx, s.cfg.Pipeline, q)
	if err != nil {
		return nil, err
	}
	f := &sessionFacts{sessionInfo: infoOf(info)}
	text := fmt.Sprintf("session_id: %s\n%s session in namespace %s: %s\nit ends after %s s without a call, and after %s s in any case",
		info.ID, info.Language, info.Namespace, limitsText(f.Limits), decimal(info.Idle), decimal(info.Lifetime))
	if missing := slices.DeleteFunc(slices.Clone(backends.ContainmentLayers), func(l string) bool { return slices.Contains(info.Layers, l) }); len(missing) > 0 {
		text += "\n" + without(missing, info.Backend, info.Profile)
	}
	if len(a.Packages) > 0 {
		_, res, err := pipeline.Do(ctx, s.cfg.Pipeline, pipeline.Install{
			Namespace: c.namespace, Session: info.ID, Language: info.Language, Packages: a.Packages, Progress: c.progress.say})
		if err != nil || res.Ended != backends.EndedOK {
			return s.undone(ctx, info, res, err), nil
		}
		f.Packages = res.Packages
		text += "\ninstalled: " + packageLine(f.Packages)
	}
	return &answer{text: text, facts: f}, nil
}

// undone ends a session whose packages could not be installed: half of what was asked for is of no use.
func (s *Server) undone(ctx context.Context, info session.Info, res pipeline.Outcome, err error) *answer {
	if _, _, closing := pipeline.Do(context.WithoutCancel(ctx), s.cfg.Pipeline, pipeline.EndSession{
		Namespace: info.Namespace, Session: info.ID,
	}); closing != nil {
		s.log.Warn("a session whose packages could not be installed can't be ended", "session", info.ID, "error", closing)
	}
	r := refusal{Reason: "the packages could not be installed, so there is no session", Denied: true,
		Remedy: "correct the packages, or create the session without them"}
	if err != nil {
		why := explain("create_session", err)
		r.Reason, r.Remedy = r.Reason+": "+why.Reason, cmp.Or(why.Remedy, r.Remedy)
		return &answer{text: r.String(), facts: &sessionFacts{common: common{Refused: &r}}, failed: true}
	}
	return &answer{text: r.String() + "\n" + s.ran(res, nil).text, facts: &sessionFacts{common: common{Refused: &r}}, failed: true}
}

type endedFacts struct {
	common
	SessionID string `json:"session_id,omitempty" about:"The session that has ended."`
	RequestID string `json:"request_id,omitempty" about:"The background run that was killed."`
	Cells     int    `json:"cells" about:"How many pieces of code the session ran."`
}

func (s *Server) terminateSession(ctx context.Context, c *call, a *terminateArgs) (*answer, error) {
	id := a.Session
	namespace := s.namespaceOf(c, id)
	if _, ok := s.cfg.Pipeline.Job(namespace, id); ok {
		text := "the run in the background is done already: " + id
		if s.cfg.Pipeline.CancelJob(namespace, id) {
			text = "the run in the background is being ended: " + id + "\nwhat to do: inspect_state with this request_id tells when it is over"
		}
		return &answer{text: text, facts: &endedFacts{RequestID: id}}, nil
	}
	info, _, err := pipeline.Do(ctx, s.cfg.Pipeline, pipeline.EndSession{Namespace: namespace, Session: id})
	if err != nil {
		return nil, err
	}
	return &answer{
		text:  fmt.Sprintf("session %s has ended after %s; its variables and files are gone", id, count(info.Cells, "cell")) + late(info.Late),
		facts: &endedFacts{SessionID: id, Cells: info.Cells},
	}, nil
}

// late is a line that says that a row is late, if it is.
func late(text string) string {
	if text == "" {
		return ""
	}
	return "\nnote: " + text
}

// namespaceOf is like namespace, for the id of a session or of a run in the background.
func (s *Server) namespaceOf(c *call, id string) string {
	if !c.walled {
		for _, j := range s.cfg.Pipeline.Jobs("") {
			if j.ID == id {
				return j.Namespace
			}
		}
	}
	return c.namespace
}
