package run

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/output"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// planCell plans code that runs in a session: its containment and limits are the session's. It returns the session's
// language.
func planCell(p *pipeline.Pipeline, c *plan) (language string, err error) {
	q := c.request
	s, err := session.FindSession(p, q.Namespace, q.Session)
	if err != nil {
		return "", err
	}
	info := s.Info()
	if err := fitsSession(q, info); err != nil {
		return "", err
	}
	c.session = s
	if c.Containment, err = containment.Choose(p, info.Backend, info.Profile, q.Require); err != nil {
		return "", err
	}
	if language, err = s.ContextLanguage(q.Context); err != nil {
		return "", session.ErrorOf(pipeline.StageValidate, err)
	}
	if session.CallsTools(language) {
		c.tools = s.Tools()
	}
	c.limits, err = limitCell(p, q, info)
	return language, err
}

// fitsSession refuses request fields that only a new sandbox could fulfil.
func fitsSession(q Request, info session.Info) error {
	for field, asked := range map[string]bool{
		"another backend":   q.Backend != "" && q.Backend != info.Backend,
		"another profile":   q.Profile != "" && q.Profile != info.Profile,
		"mounts":            len(q.Mounts) > 0,
		"another workspace": q.Workspace.Host != "" || q.Project != "" && q.Project != info.Workspace,
		"arguments":         len(q.Args) > 0,
		"standard input":    q.Stdin != nil,
	} {
		if asked {
			return pipeline.Refuse(pipeline.StageValidate, "code in a session can't have "+field, "name it when the session is created, or ",
				remedy.NoSession,
				"; data can come in as ", remedy.Input, ", ", remedy.Env, " or ", remedy.Bridge)
		}
	}
	return nil
}

// limitCell returns the session's limits, with the time and output of this cell.
func limitCell(p *pipeline.Pipeline, q Request, info session.Info) (pipeline.Bounds, error) {
	own := pipeline.BoundsOf(info.Limits)
	asked := q.Limits
	asked.Wall = 0
	for limit, differs := range map[string]bool{
		"memory":    asked.RAM > 0 && asked.RAM != own.RAM,
		"CPU":       asked.CPU > 0 && asked.CPU != own.CPU,
		"processes": asked.Processes > 0 && asked.Processes != own.Processes,
		"disk":      asked.Disk > 0 && asked.Disk != own.Disk,
	} {
		if differs {
			return own, pipeline.Refuse(pipeline.StageValidate, "a cell can't have another "+limit+" limit than its session",
				"change the session's limit with ", remedy.SetLimits)
		}
	}
	limits, err := p.ResolveLimits(q.Namespace, pipeline.Bounds{Limits: backends.Limits{Wall: q.Limits.Wall}, Output: q.Output})
	if q.Limits.Wall <= 0 {
		limits.Wall = own.Wall
	}
	if q.Output <= 0 {
		limits.Output = own.Output
	}
	limits.RAM, limits.CPU, limits.Processes, limits.Disk = own.RAM, own.CPU, own.Processes, own.Disk
	return limits, err
}

// MaxDisplays bounds the displays of a program in a result, in bytes.
const MaxDisplays = 32 << 20

// cell runs the code in its session.
func (e *execution) cell(ctx context.Context, out *pipeline.ProgramEnd, stdout, stderr io.Writer) error {
	e.guard.RecordEnv(e.request.Env)
	env := slices.Concat(e.request.Env, e.Leases.Env(e.request.Secrets)) // these stay in its session
	if len(env) > 0 {
		env = append(env, e.outbound.GitEnv(e.guard.Env())...)
	}
	before := e.before()
	came, err := e.guard.Run(ctx, kernel.Cell{
		Code: string(e.program.Source), Env: env, Timeout: e.limits.Wall,
		Stdout: stdout, Stderr: stderr, Charts: e.request.Charts,
		Display: display(e.Run, out.Displays.Add),
		Tools:   e.tools, Call: e.callTool,
	})
	over := e.guard.EndedError()
	if e.request.EnvOnce && err == nil && over == nil && !came.Lost {
		e.resetCellEnv()
	}
	if err != nil && over != nil {
		return session.ErrorOf(pipeline.StageBackend, over)
	}
	if err != nil {
		return err
	}
	e.Outcome.Value, e.Outcome.Error = came.Value, came.Error
	if came.Value != nil {
		e.Active.AddDisplay(e.CleanBundle(came.Value))
	}
	if failed := came.Error; failed != nil {
		e.Active.AddDisplay(kernel.Bundle{"text/plain": e.CleanCut(failed.Traceback)})
	}
	out.Result = cellResult(came, e.guard)
	out.Contained, out.Wall = e.guard.Contained(), came.Wall
	if came.Lost && over != nil {
		e.Outcome.StateLost = over.Error() + "; its variables and files are gone"
	} else if came.Lost {
		e.Outcome.StateLost = "the session's interpreter is gone: " + e.guard.TakeLossReason() + "; its variables are lost, its files are there"
	} else if why := e.guard.TakeLossReason(); why != "" {
		e.Outcome.StateLost = "before this code ran, the session's interpreter was lost: " + why +
			"; a new one was started, without the variables of the old one"
	}
	now := e.sandbox.Sample(true) // sampling takes about as long as collecting the artifacts, so both happen at once
	out.Measure = func(out *pipeline.ProgramEnd) {
		after := now()
		out.CPU, out.PeakMemory = max(0, after.CPU-before.CPU), after.Memory
		out.Lost = after.Lost - before.Lost
	}
	return nil
}

// resetCellEnv restores the variables that a cell overrode to the session's values, or unsets them.
func (e *execution) resetCellEnv() {
	language := e.program.Language
	if containment.OtherLanguage(e.Pipeline, language, "") != "" {
		e.Warn("variables of this code stay in the session's environment")
		return
	}
	code := kernel.RestoreCode(language, e.request.Env, e.guard.Environment())
	ctx, cancel := context.WithTimeout(context.Background(), pipeline.FinishTimeout)
	defer cancel()
	if _, err := e.guard.Run(ctx, kernel.Cell{Code: code, Name: "environment", Timeout: pipeline.FinishTimeout}); err != nil {
		e.Warn("variables of this code stay in the session's environment: " + e.Clean(err.Error()))
	}
}

// display returns a function that adds a program's displays to the result, up to MaxDisplays, and passes each to
// show.
func display(r *pipeline.Run, show func(kernel.Bundle)) func(kernel.Bundle) {
	bytes := 0
	return func(b kernel.Bundle) {
		if bytes > MaxDisplays {
			return
		}
		if bytes += output.SizeOf(b); bytes > MaxDisplays {
			b = kernel.Bundle{"text/plain": fmt.Sprintf("further displays are omitted: the code displayed more than %d MB", MaxDisplays>>20)}
		}
		r.Outcome.Displays = append(r.Outcome.Displays, b)
		clean := r.CleanBundle(b)
		r.Active.AddDisplay(clean)
		show(clean)
	}
}

// keepTexts drops all but the text form of a run's displays, in the result and for observers: the caller may read the
// rest slowly, and nothing else may wait for that.
func keepTexts(r *pipeline.Run) {
	text := func(b kernel.Bundle) kernel.Bundle { return kernel.Bundle{"text/plain": b["text/plain"]} }
	for i, b := range r.Outcome.Displays { // in place: the result that was returned has the same list
		r.Outcome.Displays[i] = text(b)
	}
	r.Active.ShortenDisplays(text)
}

// cellResult converts the outcome of a cell to the result of a run.
func cellResult(out kernel.Outcome, guard *session.Guard) backends.Result {
	switch out.Ended {
	case "ok":
		return backends.Result{End: backends.End{Ended: backends.EndedOK}}
	case "error":
		return backends.Result{End: backends.End{Ended: backends.EndedExit, ExitCode: 1}}
	case "exit":
		if *out.Exit == 0 {
			return backends.Result{End: backends.End{Ended: backends.EndedOK}}
		}
		return backends.Result{End: backends.End{Ended: backends.EndedExit, ExitCode: *out.Exit}}
	case "timeout":
		return backends.Result{End: backends.End{Ended: backends.EndedTimeout, Limit: "wall", ExitCode: 124}}
	case "cancelled":
		return backends.Result{End: backends.End{Ended: backends.EndedCancelled, ExitCode: 130}}
	}
	res, err := guard.Kernel().Death()
	if err != nil || res.Ended == backends.EndedCancelled {
		return backends.Result{End: backends.End{Ended: backends.EndedSignal, ExitCode: 137, Signal: "SIGKILL"}}
	}
	return res
}

// changedFiles lists the files of a session's workspace that are new, or have changed since the last cell.
func (e *execution) changedFiles() signer.Source {
	return func(ctx context.Context, f func(signer.File) error) (int, error) {
		before, now := e.guard.Files(), map[session.FileID]session.SeenFile{}
		skipped, err := e.guard.EachFile(ctx, func(file backends.File) error {
			id, is := session.IDOf(file.Name), session.SeenFile{Size: file.Size, Changed: file.Changed}
			now[id] = is
			if before[id] == is || strings.HasPrefix(file.Name, ".bridge/") {
				return nil
			}
			return f(signer.File{Name: file.Name, Size: file.Size, Mode: file.Mode, Open: file.Open})
		})
		if err == nil {
			e.guard.RecordFiles(now)
		}
		return skipped, err
	}
}
