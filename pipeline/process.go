package pipeline

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
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

func (q Process) subject() subject {
	return Request{Namespace: q.Namespace, Where: Where{Session: q.Session}, Env: q.Env, Streams: Streams{Terminal: q.Terminal}, Command: q.Args}.subject()
}

func (q Process) plan(_ context.Context, r *run) (action[None], error) {
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
	done, err := s.Use()
	if err != nil {
		return nil, sessionError(StageQueue, err)
	}
	r.releases = append(r.releases, done)
	c := plan{program: validate.Checked{Language: validate.Command, Name: path.Base(q.Args[0])}, limits: BoundsOf(info.Limits)}
	if c.containment, err = r.p.containmentOf(info.Backend, info.Profile, nil); err != nil {
		return nil, err
	}
	r.res.Language, r.res.Name, r.res.Profile, r.res.Backend = validate.Command, c.program.Name, info.Profile, info.Backend
	r.know(c)
	t := &task[None]{run: r, stage: StageBackend}
	t.do = func(ctx context.Context) (none None, _ error) {
		t.out = newOutcome(c.limits.Output, q.Stdout, q.Stderr, true, nil)
		r.releases = append(r.releases, func() { t.out.deliver(ctx) })
		if err := q.run(ctx, r, s, t.out); err != nil {
			return none, err
		}
		return none, c.holds(t.out.Contained.InForce())
	}
	return t, nil
}

// run has the program run in its session.
func (q Process) run(ctx context.Context, r *run, s *session.Session, out *programEnd) error {
	stdout, stderr, end := r.pipes(out)
	running, kill := context.WithCancel(ctx)
	defer kill()
	defer context.AfterFunc(running, out.loosen)()
	go func() { // a session that ends waits for no reader
		select {
		case <-s.Dead():
			kill()
		case <-running.Done():
		}
	}()
	var err error
	out.Result, err = s.Sandbox().Exec(running, backends.Command{
		Args: q.Args, Env: slices.Concat(s.Environment(), q.Env), Dir: q.Dir, Endless: true,
	}, backends.Streams{
		Stdin: q.Stdin, Stdout: stdout, Stderr: stderr, Terminal: q.Terminal, Interrupt: q.Interrupt, Terminate: q.Terminate,
		Begun: func(c backends.Containment) {
			if q.Begun != nil {
				q.Begun(c.PID)
			}
		},
	})
	if err = errors.Join(err, end()); err != nil && s.Over() != nil {
		return sessionError(StageBackend, s.Over())
	}
	r.res.addOutcome(out.Result)
	return err
}
