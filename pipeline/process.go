package pipeline

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// Process is a program beside the interpreters of a session, in its sandbox. It waits in no line and takes no place of the queue: the
// limits of the session bound all of its programs together. It ends with the session, at the latest. What it writes to files stays the session's, and is no
// artifact. Use [Pipeline.Start] for one that is to be found by others while it runs.
type Process struct {
	Namespace, Session string
	Args               []string
	Env                []string // KEY=VALUE, on top of the session's
	Dir                string   // "" is the home directory; ~ and relative ones are in it
	Stdin              io.Reader
	Terminal           *backends.Terminal

	// Stdout and Stderr get all of the output while it runs, redacted. A writer that blocks holds the program up.
	Stdout, Stderr io.Writer
	// Begun, if not nil, is called with the program's number inside before any output.
	Begun func(pid int)

	Interrupt, Terminate <-chan struct{} // have it get SIGINT and SIGTERM; nil for none
}

func (q Process) describe() Request {
	d := Request{Namespace: q.Namespace, Session: q.Session, Env: q.Env, Terminal: q.Terminal}
	if len(q.Args) > 0 {
		d.Command, d.Code, d.Name = q.Args, []byte(host.Words(q.Args).String()), path.Base(q.Args[0])
	}
	return d
}

func (q Process) plan(_ context.Context, r *run) (work, error) {
	s, err := r.p.own(r.res.Namespace, q.Session)
	if err != nil {
		return nil, err
	}
	r.leases, r.now = s.Leases(), s.Leases
	if len(q.Args) == 0 || q.Args[0] == "" {
		return nil, refuse(StageValidate, "a command begins with the name of a program", "")
	}
	for _, a := range q.Args {
		if strings.Contains(a, "\x00") {
			return nil, refuse(StageValidate, "an argument holds a NUL byte, which no program can be given", "")
		}
	}
	if err := checkEnv(q.Env, nil); err != nil {
		return nil, err
	}
	info := s.Info()
	if q.Dir != "" {
		if q.Dir, err = ResolvePath(info, q.Dir); err != nil {
			return nil, err
		}
	}
	w := &processWork{run: r, session: s, Process: q}
	w.plan.request.Namespace = r.res.Namespace
	if w.plan.containment, err = r.p.containmentOf(info.Backend, info.Profile, nil); err != nil {
		return nil, err
	}
	w.plan.program, w.plan.limits = validate.Checked{Language: validate.Command, Name: path.Base(q.Args[0])}, BoundsOf(info.Limits)
	r.res.Language, r.res.Name, r.res.Profile, r.res.Backend = validate.Command, w.plan.program.Name, info.Profile, info.Backend
	r.know(w.plan)
	return w, nil
}

// processWork is a Process under way.
type processWork struct {
	*run
	Process
	session *session.Session
	plan    plan
	out     *outcome
}

func (w *processWork) acquire(context.Context) error {
	done, err := w.session.Use()
	if err != nil {
		return sessionError(StageQueue, err)
	}
	w.releases = append(w.releases, done)
	return nil
}

func (w *processWork) start(ctx context.Context) error { return w.recordStart(ctx) }

func (w *processWork) perform(ctx context.Context) error {
	defer w.time(&w.res.Timings.Exec)()
	out := newOutcome(w.plan.limits.Output, w.Stdout, w.Stderr, true, nil)
	w.out = out
	w.releases = append(w.releases, func() { out.deliver(ctx) })
	stdout, stderr, end := w.pipes(out)
	running, kill := context.WithCancel(ctx)
	defer kill()
	loose := func() { out.stdout.loosen(); out.stderr.loosen() }
	defer context.AfterFunc(running, loose)()
	go func() { // a session that ends waits for no reader
		select {
		case <-w.session.Dead():
			kill()
		case <-running.Done():
		}
	}()
	var err error
	out.Result, err = w.session.Sandbox().Exec(running, backends.Command{
		Args: w.Args, Env: slices.Concat(w.session.Environment(), w.Env), Dir: w.Dir, Endless: true,
	}, backends.Streams{
		Stdin: w.Stdin, Stdout: stdout, Stderr: stderr, Terminal: w.Terminal, Interrupt: w.Interrupt, Terminate: w.Terminate,
		Begun: func(c backends.Containment) {
			if w.Begun != nil {
				w.Begun(c.PID)
			}
		},
	})
	if err = errors.Join(err, end()); err != nil && w.session.Over() != nil {
		return sessionError(StageBackend, w.session.Over())
	}
	if err != nil {
		return broke(StageBackend, err)
	}
	w.res.addOutcome(out.Result)
	return w.plan.holds(out.Contained.InForce())
}

func (w *processWork) seal(ctx context.Context) error {
	w.res.Stdout, w.res.StdoutCut = w.out.stdout.contents()
	w.res.Stderr, w.res.StderrCut = w.out.stderr.contents()
	w.scrub()
	w.captureOutput()
	return w.signOutcome(ctx, w.out, nil)
}

func (w *processWork) settle(ctx context.Context, unrecorded error) {
	w.res.Timings.Total = time.Since(w.began).Microseconds()
	if unrecorded == nil {
		w.storeResult(ctx)
	}
}
