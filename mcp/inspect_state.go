package mcp

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/run"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

const aboutInspect = `Without arguments, lists sessions and background runs, with the limits in force. With session_id, returns the session's variables, files and environment, ` +
	`secrets masked. With request_id, returns a background run's state, and its last lines or its result.`

type inspectArgs struct {
	Session string  `json:"session_id" about:"The session to inspect." range:"..64"`
	Run     string  `json:"request_id" about:"The background run to inspect." range:"..64"`
	Wait    float64 `json:"wait" about:"Seconds to wait for the background run's end." range:"0..50" default:"0"`
	inNamespace
}

// stateFacts describe a session, a background run or a namespace.
type stateFacts struct {
	answer.Common
	Namespace string                 `json:"namespace,omitempty" about:"The namespace; absent if all are listed."`
	Sessions  []sessionInfo          `json:"sessions,omitempty" about:"The sessions, or the requested one."`
	Variables []variable             `json:"variables,omitempty" about:"The session's variables."`
	Files     []sessionFile          `json:"files,omitempty" about:"The files in the session's working directory."`
	Env       []string               `json:"env,omitempty" about:"The session's environment as NAME=VALUE, secrets masked."`
	Usage     *pipeline.CurrentUsage `json:"usage,omitempty" about:"The session's current resource use."`
	Note      string                 `json:"note,omitempty" about:"Why data is missing."`
	Jobs      []jobFacts             `json:"jobs,omitempty" about:"The background runs, or the requested one."`
	Result    *answer.Outcome        `json:"result,omitempty" about:"The background run's result, when it is done."`
	Limits    *pipeline.Limits       `json:"limits,omitempty" about:"Default limits of a run in the namespace."`
	Caps      *pipeline.Limits       `json:"caps,omitempty" about:"The maximum limits."`
}

type variable struct {
	Name string `json:"name" about:"The variable."`
	Type string `json:"type" about:"Its type."`
	Text string `json:"text" about:"Its value, or the beginning." required:"true"`
	Size int64  `json:"size" about:"Its size in unit."`
	Unit string `json:"unit,omitempty" about:"The unit of size."`
}

type sessionFile struct {
	Name    string `json:"name" about:"The file's name, relative to the working directory."`
	Size    int64  `json:"size" about:"Its size in bytes."`
	Changed string `json:"changed" about:"When it was last changed."`
}

type jobFacts struct {
	RequestID string               `json:"request_id" about:"The run's id."`
	Namespace string               `json:"namespace" about:"Its namespace."`
	SessionID string               `json:"session_id,omitempty" about:"Its session."`
	State     string               `json:"state" about:"running or done."`
	Began     string               `json:"began" about:"When it started."`
	Stdout    string               `json:"stdout_tail,omitempty" about:"The end of its standard output so far."`
	Stderr    string               `json:"stderr_tail,omitempty" about:"The end of its standard error so far."`
	Ended     string               `json:"ended,omitempty" about:"How it ended, when it is done."`
	ToolCalls []answer.PendingCall `json:"tool_calls,omitempty" about:"Calls of its session's tools that wait for results: send them to execute_code with request_id and tool_results."`
}

func (s *Server) inspectState(ctx context.Context, c *call, a *inspectArgs) (*answer.Answer, error) {
	id, background := a.Session, a.Run
	switch {
	case id != "" && background != "":
		return nil, operation.ArgumentError("request_id", "conflicts with session_id: send one of them")
	case id != "":
		return s.inspectSession(ctx, c.namespace, id)
	case background != "":
		soon, cancel := context.WithTimeout(ctx, time.Duration(a.Wait*float64(time.Second)))
		defer cancel()
		run.WaitJob(soon, s.cfg.Pipeline, s.namespaceOf(c, background), background)
		return s.inspectJob(ctx, s.namespaceOf(c, background), background)
	}
	all := c.namespace
	if !c.oneNamespace {
		all = ""
	}
	return s.overview(c.namespace, all), nil
}

// overview lists sessions and runs of the namespace all, or of every namespace for "", and the limits of namespace.
func (s *Server) overview(namespace, all string) *answer.Answer {
	now, ceiling := s.cfg.Pipeline.LimitsInForce(namespace)
	limits, caps := pipeline.LimitsOf(now), pipeline.LimitsOf(ceiling)
	f := &stateFacts{Namespace: all, Limits: &limits, Caps: &caps}
	var text []string
	for _, i := range session.List(s.cfg.Pipeline, all) {
		f.Sessions = append(f.Sessions, infoOf(i))
		line := fmt.Sprintf("- %s: %s, %s, namespace %s, %s, last used %s", i.ID, i.Language, i.State, i.Namespace, answer.Count(i.Cells, "cell"),
			answer.Stamp(i.Used))
		if i.Ended != "" {
			line += ", ended: " + i.Ended
		}
		text = append(text, line)
	}
	text = append([]string{answer.Count(len(f.Sessions), "session")}, text...)
	jobs := run.Jobs(s.cfg.Pipeline, all)
	text = append(text, answer.Count(len(jobs), "background run"))
	for _, j := range jobs {
		f.Jobs = append(f.Jobs, jobOf(j))
		text = append(text, fmt.Sprintf("- %s: %s, namespace %s, began %s", j.ID, j.State, j.Namespace, answer.Stamp(j.Began)))
	}
	text = append(text, fmt.Sprintf("defaults of a run in namespace %s: %s", namespace, limitsText(&limits)),
		fmt.Sprintf("maximum: %s", limitsText(&caps)))
	return &answer.Answer{Text: strings.Join(text, "\n"), Facts: f}
}

func jobOf(j run.Job) jobFacts {
	f := jobFacts{RequestID: j.ID, Namespace: j.Namespace, SessionID: j.Session, State: j.State, Began: answer.Stamp(j.Began)}
	if j.Result != nil {
		f.Ended = j.Result.Ended
		return f
	}
	f.ToolCalls = pendingCalls(j.Calls)
	f.Stdout, f.Stderr = tailText(j.Stdout), tailText(j.Stderr)
	return f
}

// tailText returns the end of a run's output, which is short for binary output.
func tailText(s string) string {
	if !answer.LooksBinary(s) {
		return safetext.Model(s)
	}
	return answer.Excerpt(s, answer.MaxBinary, "")
}

// renderPast describes a run that only the log knows: one of another server, or of this one before its restart.
func renderPast(past pipeline.Past) *answer.Answer {
	f := jobFacts{RequestID: past.ID, Namespace: past.Namespace, State: "done", Began: answer.Stamp(past.Began), Ended: past.Ended}
	return &answer.Answer{Text: "done, according to the log: " + past.String() + "\nget_artifacts returns its output, if it is still stored",
		Facts: &stateFacts{Namespace: past.Namespace, Jobs: []jobFacts{f}, Note: past.Reason}}
}

func (s *Server) inspectJob(ctx context.Context, namespace, id string) (*answer.Answer, error) {
	j, ok := run.JobOf(s.cfg.Pipeline, namespace, id)
	if !ok {
		if past, known := s.cfg.Pipeline.FindPast(ctx, namespace, id); known && !past.Session {
			return renderPast(past), nil
		}
		return nil, &pipeline.Error{Stage: pipeline.StageValidate, Denied: true,
			Reason: fmt.Sprintf("unknown background run %s in namespace %s", safetext.Clip(id, 64), namespace),
			Remedy: pipeline.Remedy{"inspect_state without arguments lists background runs; get_artifacts returns the results of other runs"}}
	}
	f := &stateFacts{Namespace: namespace, Jobs: []jobFacts{jobOf(j)}}
	if j.Result == nil {
		text := fmt.Sprintf("running for %.1f s; call inspect_state again later, or terminate_session to end it", time.Since(j.Began).Seconds())
		for _, q := range s.ask.WaitingFor(id) {
			text += "\n" + s.ask.WaitingText(q)
		}
		if len(j.Calls) > 0 {
			text += fmt.Sprintf("\nit waits for the results of %s; send them to execute_code with this request_id and tool_results:\n%s",
				answer.Count(len(j.Calls), "call"), callsText(f.Jobs[0].ToolCalls))
		}
		if f.Jobs[0].Stdout == "" && f.Jobs[0].Stderr == "" {
			text += "\nno output yet"
		}
		for _, part := range []struct{ name, text string }{{"stdout", f.Jobs[0].Stdout}, {"stderr", f.Jobs[0].Stderr}} {
			if part.text != "" {
				text += fmt.Sprintf("\nend of %s (%d bytes):\n%s", part.name, len(part.text), strings.TrimSuffix(part.text, "\n"))
			}
		}
		return &answer.Answer{Text: text, Facts: f}, nil
	}
	a := s.renderRun(*j.Result, nil)
	if r, ok := a.Facts.(*answer.RunFacts); ok {
		f.Result, f.Refused = &r.Outcome, r.Refused
	}
	return &answer.Answer{Text: "done: " + a.Text, Facts: f, Extra: a.Extra}, nil
}

func (s *Server) inspectSession(ctx context.Context, namespace, id string) (*answer.Answer, error) {
	info, err := session.InfoOf(s.cfg.Pipeline, namespace, id)
	if err != nil {
		past, known := s.cfg.Pipeline.FindPast(ctx, namespace, id)
		if !known || !past.Session {
			return nil, err
		}
		return &answer.Answer{Text: fmt.Sprintf("session %s has ended, according to the log: %s\nwhat to do: create_session starts a new one", id,
			past), Facts: &stateFacts{Namespace: namespace, Note: past.String()}}, nil
	}
	if info.State == "dead" {
		f := &stateFacts{Namespace: namespace, Sessions: []sessionInfo{infoOf(info)}}
		return &answer.Answer{Text: fmt.Sprintf("session %s is dead: %s\nwhat to do: create_session starts a new one", id, info.Ended), Facts: f},
			nil
	}
	state, err := session.Inspect(ctx, s.cfg.Pipeline, namespace, id)
	if err != nil {
		return nil, err
	}
	f := &stateFacts{
		Namespace: namespace, Sessions: []sessionInfo{infoOf(state.Info)}, Env: state.Env, Note: state.Note, Usage: &state.Usage,
	}
	text := []string{fmt.Sprintf("session %s: %s, %s, %s, %s of memory", id, state.Language, state.State, answer.Count(state.Cells, "cell"),
		answer.Size(state.Usage.MemoryBytes))}
	for _, r := range state.Restarts {
		text = append(text, fmt.Sprintf("its variables were lost at %s: %s", answer.Stamp(r.Time), r.Why))
	}
	text = append(text, answer.Count(len(state.Variables), "variable"))
	for i, v := range state.Variables {
		f.Variables = append(f.Variables, variable{safetext.Model(v.Name), v.Type, safetext.Model(v.Text), v.Size, v.Unit})
		if i < maxNamed {
			text = append(text, fmt.Sprintf("- %s (%s): %s", safetext.Model(v.Name), v.Type, safetext.Model(safetext.Clip(v.Text, 200))))
		}
	}
	text = append(text, moreText(len(state.Variables)), answer.Count(len(state.Files), "file"))
	for i, one := range state.Files {
		f.Files = append(f.Files, sessionFile{safetext.Model(one.Name), one.Size, answer.Stamp(one.Changed)})
		if i < maxNamed {
			text = append(text, fmt.Sprintf("- %s, %s", safetext.Model(one.Name), answer.Size(one.Size)))
		}
	}
	text = append(text, moreText(len(state.Files)), state.Note)
	if len(state.Env) > 0 {
		text = append(text, "environment: "+strings.Join(state.Env, " "))
	}
	text = strings.FieldsFunc(strings.Join(text, "\n"), func(r rune) bool { return r == '\n' })
	return &answer.Answer{Text: strings.Join(text, "\n"), Facts: f}, nil
}

func pendingCalls(calls []run.ToolCall) (all []answer.PendingCall) {
	for _, c := range calls {
		all = append(all, answer.PendingCall{ID: c.ID, Name: c.Name, Arguments: string(c.Arguments)})
	}
	return all
}

func callsText(calls []answer.PendingCall) string {
	var lines []string
	for _, c := range calls {
		lines = append(lines, fmt.Sprintf("- %s: %s %s", c.ID, c.Name, c.Arguments))
	}
	return strings.Join(lines, "\n")
}

// sessionInfo describes a session.
type sessionInfo struct {
	SessionID string               `json:"session_id,omitempty" about:"The session's id."`
	Namespace string               `json:"namespace,omitempty" about:"Its namespace."`
	Language  string               `json:"language,omitempty" about:"Its language."`
	Backend   string               `json:"backend,omitempty" about:"Its isolation backend."`
	Profile   string               `json:"profile,omitempty" about:"The containment profile."`
	State     string               `json:"state,omitempty" about:"idle, busy or dead."`
	Created   string               `json:"created,omitempty" about:"When it started."`
	Used      string               `json:"last_used,omitempty" about:"When it was last used."`
	Idle      float64              `json:"idle_seconds,omitempty" about:"Idle time in seconds after which it ends."`
	Lifetime  float64              `json:"lifetime_seconds,omitempty" about:"Seconds after which it ends in any case."`
	Cells     int                  `json:"cells" about:"Number of calls that ran code in it."`
	Restarts  []restart            `json:"restarts,omitempty" about:"When and why its variables were lost."`
	Ended     string               `json:"ended,omitempty" about:"Why it is dead: closed, idle, lifetime, oom, signal, limit or failed."`
	Workspace string               `json:"workspace,omitempty" about:"The workspace that is its /workspace."`
	Changes   *answer.ChangesFacts `json:"changes,omitempty" about:"Its changes to the workspace, as they were proposed last."`
	Tools     []string             `json:"tools,omitempty" about:"Functions of the client that its code can call."`
	Limits    *pipeline.Limits     `json:"limits,omitempty" about:"Its limits."`
	Layers    []string             `json:"layers,omitempty" about:"Layers of containment in force."`
}

type restart struct {
	Time string `json:"time" about:"The time."`
	Why  string `json:"why" about:"The reason."`
}

func limitsText(l *pipeline.Limits) string {
	return fmt.Sprintf("%d MB of memory, %s CPU, %s s a run, %d processes, %s of output, %d MB of disk",
		l.RAM, decimal(l.CPU), decimal(l.Wall), l.Processes, answer.Size(l.Output), l.Disk)
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func infoOf(i session.Info) sessionInfo {
	f := sessionInfo{
		SessionID: i.ID, Namespace: i.Namespace, Language: i.Language, Backend: i.Backend, Profile: i.Profile, State: i.State,
		Created: answer.Stamp(i.Created), Used: answer.Stamp(i.Used), Idle: i.Idle, Lifetime: i.Lifetime, Cells: i.Cells, Ended: i.Ended,
		Tools:     i.Tools,
		Workspace: i.Workspace, Changes: answer.FactsOfChanges(i.Changes),
		Limits: &i.Limits, Layers: i.Layers,
	}
	for _, r := range i.Restarts {
		f.Restarts = append(f.Restarts, restart{answer.Stamp(r.Time), r.Why})
	}
	return f
}
