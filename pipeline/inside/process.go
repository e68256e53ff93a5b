package inside

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// Process is a program in a session's sandbox beside its interpreters. It needs no turn and no slot of the queue: the
// limits of the session bound all of its programs together. It ends with the session at the latest. Its files belong
// to the session and are not artifacts. [Start] runs a program that others can find while it runs.
type Process struct {
	Namespace, Session string
	Args               []string
	Env                []string // KEY=VALUE, in addition to the session's
	Dir                string   // "" is the home directory; ~ and relative paths are in it
	Stdin              io.Reader
	Terminal           *backends.Terminal

	// Stdout and Stderr get all output while it runs, redacted. A writer that blocks blocks the program.
	Stdout, Stderr io.Writer
	// Begun, if not nil, is called with the program's PID in the sandbox before any output.
	Begun func(pid int)

	Interrupt, Terminate <-chan struct{} // send it SIGINT and SIGTERM; nil for none
}

func (q Process) Subject() pipeline.Subject {
	f := pipeline.EnvFacts(q.Env)
	f.AddIf("command", q.Args, len(q.Args))
	if q.Terminal != nil {
		f["terminal"] = true
	}
	s := pipeline.Subject{Namespace: q.Namespace, Session: q.Session, Language: validate.Command, Code: []byte(host.Words(q.Args).String()),
		Facts: f}
	if len(q.Args) > 0 {
		s.Name = path.Base(q.Args[0])
	}
	return s
}

func (q Process) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[pipeline.NoAnswer], error) {
	s, err := session.FindSession(r.Pipeline, r.Outcome.Namespace, q.Session)
	if err != nil {
		return nil, err
	}
	r.Leases, r.CurrentLeases = s.Leases(), s.Leases
	if len(q.Args) == 0 || q.Args[0] == "" {
		return nil, pipeline.Refuse(pipeline.StageValidate, "a command starts with the name of a program", "")
	}
	for _, a := range q.Args {
		if strings.Contains(a, "\x00") {
			return nil, pipeline.Refuse(pipeline.StageValidate, "an argument contains a NUL byte, which can't be passed to a program", "")
		}
	}
	if err := containment.CheckEnv(q.Env, nil); err != nil {
		return nil, err
	}
	info := s.Info()
	if q.Dir != "" {
		if q.Dir, err = session.ResolvePath(info, q.Dir); err != nil {
			return nil, err
		}
	}
	done, err := s.Use()
	if err != nil {
		return nil, session.ErrorOf(pipeline.StageQueue, err)
	}
	r.Releases = append(r.Releases, done)
	program, limits := validate.Checked{Language: validate.Command, Name: path.Base(q.Args[0])}, pipeline.BoundsOf(info.Limits)
	c, err := containment.Choose(r.Pipeline, info.Backend, info.Profile, nil)
	if err != nil {
		return nil, err
	}
	r.Outcome.Language, r.Outcome.Name, r.Outcome.Profile, r.Outcome.Backend = program.Language, program.Name, info.Profile, info.Backend
	c.Describe(r, program, limits)
	t := &pipeline.Task[pipeline.NoAnswer]{Run: r, Stage: pipeline.StageBackend}
	t.Do = func(ctx context.Context) (none pipeline.NoAnswer, _ error) {
		t.Out = pipeline.NewProgramEnd(limits.Output, q.Stdout, q.Stderr, true, nil)
		r.Releases = append(r.Releases, func() { t.Out.WaitForReaders(ctx) })
		if err := q.run(ctx, r, s, t.Out); err != nil {
			return none, err
		}
		return none, c.CheckLayers(t.Out.Contained.InForce())
	}
	return t, nil
}

// run runs the program in its session.
func (q Process) run(ctx context.Context, r *pipeline.Run, s *session.Session, out *pipeline.ProgramEnd) error {
	stdout, stderr, end := r.OutputWriters(out)
	running, kill := context.WithCancel(ctx)
	defer kill()
	defer context.AfterFunc(running, out.StopWaitingForReaders)()
	go func() { // an ending session does not wait for readers
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
	if err = errors.Join(err, end()); err != nil && s.EndedError() != nil {
		return session.ErrorOf(pipeline.StageBackend, s.EndedError())
	}
	r.Outcome.AddProgramResult(out.Result)
	return err
}
