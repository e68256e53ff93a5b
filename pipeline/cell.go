package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// planCell decides what contains and limits code that a session is to run, and returns the session's language.
func (p *Pipeline) planCell(c *plan) (language string, err error) {
	q := c.request
	s, err := p.sessions.Get(q.Session)
	if err != nil {
		return "", sessionError(StageValidate, err)
	}
	info := s.Info()
	if err := fitsSession(q, info); err != nil {
		return "", err
	}
	c.session = s
	if c.containment, err = p.containmentOf(info.Backend, info.Profile, q.Require); err != nil {
		return "", err
	}
	if language, err = s.ContextLanguage(q.Context); err != nil {
		return "", sessionError(StageValidate, err)
	}
	if callsTools(language) {
		c.tools = s.Tools()
	}
	c.limits, err = p.limitCell(q, info)
	return language, err
}

// fitsSession refuses what can't be had of a session that stands already.
func fitsSession(q Request, info session.Info) error {
	if q.Namespace != info.Namespace {
		// The same words as for one that is not there: namespaces are walls.
		return sessionError(StageValidate, fmt.Errorf("%w: %.40q", session.ErrUnknown, q.Session))
	}
	for what, asked := range map[string]bool{
		"another backend":    q.Backend != "" && q.Backend != info.Backend,
		"another profile":    q.Profile != "" && q.Profile != info.Profile,
		"mounts":             len(q.Mounts) > 0,
		"a host's workspace": q.Workspace.Host != "",
		"arguments":          len(q.Args) > 0,
		"standard input":     q.Stdin != nil,
	} {
		if asked {
			return refuse(StageValidate, "code in a session can't have "+what, "name it when the session is created, or ", remedy.NoSession,
				"; data can come in as ", remedy.Input, ", ", remedy.Env, " or ", remedy.Bridge)
		}
	}
	return nil
}

// limitCell returns the session's limits, with the time and output of this cell.
func (p *Pipeline) limitCell(q Request, info session.Info) (Bounds, error) {
	own := BoundsOf(info.Limits)
	asked := q.Limits
	asked.Wall = 0
	for what, more := range map[string]bool{
		"memory":    asked.RAM > 0 && asked.RAM != own.RAM,
		"CPU":       asked.CPU > 0 && asked.CPU != own.CPU,
		"processes": asked.Processes > 0 && asked.Processes != own.Processes,
		"disk":      asked.Disk > 0 && asked.Disk != own.Disk,
	} {
		if more {
			return own, refuse(StageValidate, "one cell can't have another limit of "+what+" than its session",
				"change the session's with ", remedy.SetLimits)
		}
	}
	limits, err := p.limit(q.Namespace, Bounds{backends.Limits{Wall: q.Limits.Wall}, q.Output})
	if q.Limits.Wall <= 0 {
		limits.Wall = own.Wall
	}
	if q.Output <= 0 {
		limits.Output = own.Output
	}
	limits.RAM, limits.CPU, limits.Processes, limits.Disk = own.RAM, own.CPU, own.Processes, own.Disk
	return limits, err
}

// sessionError returns the error of a stage about a session, with its remedy, unless it has that already.
func sessionError(stage string, err error) error {
	e := refuseFor(err, stage)
	switch {
	case errors.As(err, new(*Error)):
		return broke(stage, err)
	case errors.Is(err, session.ErrUnknown):
		e.Remedy = Remedy{remedy.FindSession}
	case errors.Is(err, session.ErrDead):
		e.Remedy = Remedy{"create a new one with ", remedy.CreateSession, "; its variables and files are gone"}
	case errors.Is(err, session.ErrNoContext), errors.Is(err, session.ErrBare):
		e.Remedy = Remedy{"name a context that the session has"}
	case errors.Is(err, session.ErrNoAgent):
		e.Remedy = Remedy{"open it with the profile hardened, by a program file that every user may execute"}
	case errors.Is(err, session.ErrContexts):
		e.Remedy = Remedy{"remove one that is not needed any more"}
	case errors.Is(err, session.ErrFull):
		e.Remedy = Remedy{"end one with ", remedy.EndSession, ", or ", remedy.Raise.With("sessions.per_namespace or sessions.total")}
	default:
		return broke(stage, err)
	}
	return e
}

// maxDisplays bounds the displays of a program in a result, in bytes, and displayOverhead is
// what each takes if it is empty.
const (
	maxDisplays     = 32 << 20
	displayOverhead = 512
)

// cell runs the code in its session.
func (e *execution) cell(ctx context.Context, out *programEnd, stdout, stderr io.Writer) error {
	e.guard.Note(e.request.Env)
	env := slices.Concat(e.request.Env, e.leases.Env(e.request.Secrets)) // these stay in its session
	if len(env) > 0 {
		env = append(env, e.outbound.Git(e.guard.Env())...)
	}
	before := e.before()
	came, err := e.guard.Run(ctx, kernel.Cell{
		Code: string(e.program.Source), Env: env, Timeout: e.limits.Wall,
		Stdout: stdout, Stderr: stderr, Charts: e.request.Charts,
		Display: e.display(out.shows.add),
		Tools:   e.tools, Call: e.callTool,
	})
	over := e.guard.Over()
	if e.request.EnvOnce && err == nil && over == nil && !came.Lost {
		e.takeBack()
	}
	if err != nil && over != nil {
		return sessionError(StageBackend, over)
	}
	if err != nil {
		return err
	}
	e.res.Value, e.res.Error = came.Value, came.Error
	if came.Value != nil {
		e.live.display(e.cleaner(came.Value))
	}
	if failed := came.Error; failed != nil {
		e.live.display(kernel.Bundle{"text/plain": e.cleanCut(failed.Traceback)})
	}
	out.Result = cellResult(came, e.guard)
	out.Contained, out.Wall = e.guard.Contained(), came.Wall
	if came.Lost && over != nil {
		e.res.StateLost = over.Error() + "; its variables and files are gone"
	} else if came.Lost {
		e.res.StateLost = "the session's interpreter is gone: " + e.guard.Lost() + "; its variables are lost, its files are there"
	} else if why := e.guard.Lost(); why != "" {
		e.res.StateLost = "before this code ran, the session's interpreter was lost: " + why + "; a new one was started, without the variables of the old one"
	}
	now := e.sandbox.Sample(true) // while its artifacts are collected, which takes about as long
	out.measure = func(out *programEnd) {
		after := now()
		out.CPU, out.PeakMemory = max(0, after.CPU-before.CPU), after.Memory
		out.Lost = after.Lost - before.Lost
	}
	return nil
}

// takeBack gives the variables of a cell the values that the session has for them, or none.
func (e *execution) takeBack() {
	language := e.program.Language
	if e.p.OtherLanguage(language, "") != "" {
		e.warn("variables of this code stay in the session's environment")
		return
	}
	code := kernel.Restoring(language, e.request.Env, e.guard.Environment())
	ctx, cancel := context.WithTimeout(context.Background(), finishTimeout)
	defer cancel()
	if _, err := e.guard.Run(ctx, kernel.Cell{Code: code, Name: "environment", Timeout: finishTimeout}); err != nil {
		e.warn("variables of this code stay in the session's environment: " + e.clean(err.Error()))
	}
}

// display returns what takes a program's displays into the result, up to a bound, and shows them as they come.
func (r *run) display(show func(kernel.Bundle)) func(kernel.Bundle) {
	bytes := 0
	return func(b kernel.Bundle) {
		if bytes > maxDisplays {
			return
		}
		if bytes += sizeOf(b); bytes > maxDisplays {
			b = kernel.Bundle{"text/plain": fmt.Sprintf("this and what follows is not shown: the code showed more than %d MB", maxDisplays>>20)}
		}
		r.res.Displays = append(r.res.Displays, b)
		clean := r.cleaner(b)
		r.live.display(clean)
		show(clean)
	}
}

// keepTexts has the result, and those who look on, keep no more than the texts of what was shown: the caller gets the rest as slowly as it
// likes, and nothing else of it must wait for that.
func (r *run) keepTexts() {
	text := func(b kernel.Bundle) kernel.Bundle { return kernel.Bundle{"text/plain": b["text/plain"]} }
	for i, b := range r.res.Displays { // in place: the result that was returned has the same list
		r.res.Displays[i] = text(b)
	}
	if r.live == nil {
		return
	}
	r.live.mu.Lock()
	defer r.live.mu.Unlock()
	var all []kernel.Bundle // another slice: some may be reading this one
	for _, b := range r.live.displays {
		all = append(all, text(b))
	}
	r.live.displays = all
}

// sizeOf returns the bytes that a display counts for.
func sizeOf(b kernel.Bundle) int {
	size := displayOverhead
	for form, data := range b {
		size += len(form) + len(data)
	}
	return size
}

// cellResult returns the outcome of a cell as that of a run.
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

// fresh lists the files of a session's workspace that are new, or have changed since the last cell.
func (e *execution) fresh() signer.Source {
	return func(ctx context.Context, f func(signer.File) error) (int, error) {
		before, now := e.guard.Files(), map[session.FileID]session.Seen{}
		skipped, err := e.sandbox.Files().Each(ctx, func(file backends.File) error {
			id, is := session.IDOf(file.Name), session.Seen{Size: file.Size, Changed: file.Changed}
			now[id] = is
			if before[id] == is || strings.HasPrefix(file.Name, ".bridge/") {
				return nil
			}
			return f(signer.File{Name: file.Name, Size: file.Size, Mode: file.Mode, Open: file.Open})
		})
		if err == nil {
			e.guard.See(now)
		}
		return skipped, err
	}
}
