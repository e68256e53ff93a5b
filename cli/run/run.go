// Package run implements the command run: a script or a program in a sandbox, once.
//
// It reads the flags into a request of package pipeline/run, and has a running server do it (wiring.HandOver), or builds
// a pipeline (wiring.New) and calls pipeline.Do.
package run

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/memory"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

// commands are the actions of this package on the streams of one invocation.
type commands struct{ *command.Streams }

// Command returns the command run.
func Command(s *command.Streams) *cli.Command {
	p := commands{s}
	return &cli.Command{
		Name:  "run",
		Usage: "run a script or a program in a sandbox",
		UsageText: "sandboxmcp run [flags] FILE [flags] [-- args...]\nsandboxmcp run [flags] -- COMMAND [args...]\nsandboxmcp run [flags] -c " +
			"CODE [-- args...]",
		Description: `FILE is a .py, .js, .mjs, .cjs, .ts, .sh, .bash or .R file, one whose first line names its interpreter
(#!/usr/bin/env python3, #!/bin/sh), or - for standard input.

COMMAND is a program in the sandbox, found on the PATH there, or in /workspace for a name with a slash. The
sandbox has all interpreters of this machine for it; with --language only that one, and in a container those of that
language's image.

The script sees only itself and the interpreters of this machine (with --backend podman or docker, those of an
image), and reaches only the hosts that --allow or the configuration lists. The files that it leaves in its working
directory, /workspace, are its artifacts.

Output to a file or a pipe is unchanged. On a terminal, colours and progress bars work, and other escape sequences
are printed as text; with --raw all of them work.

Ctrl-C and SIGTERM are forwarded to the script, which has --grace seconds to save its work; the next one kills it.

A program waits for the reader of its output, and its time limit includes the wait. After the time limit, or a signal, output that
is not read within --grace seconds (at least 2) is dropped, and stderr says so.

A running server of yours that would do exactly the same runs the script, which saves the start of a sandbox, if --timeout is at most five
minutes; --here runs it in this process.

With --tty the program runs on a terminal: shells, editors and pagers work, and Ctrl-C goes to the program. Its time
limit is caps.timeout_seconds of the configuration, unless --timeout is less.

The exit code is the script's; 124 at the time limit, 137 at the memory limit, 127 if the sandbox has no such COMMAND,
126 if that can't be executed, and 125 if sandboxmcp refused or failed to run it.

Examples:
  sandboxmcp run script.py
  sandboxmcp run train.py --input data.csv --artifacts out --ram 2048 -- --epochs 3
  echo 'print(6 * 7)' | sandboxmcp run - --language python
  sandboxmcp run -c 'print(42)'
  sandboxmcp run --workspace . -- pytest -q
  sandboxmcp run --tty -- bash`,
		Flags: runFlags(),
		Action: func(c *cli.Context) error {
			return exit.AsRefusal(Execute(s, c, Job{Grace: command.Seconds(c.Float64("grace")), Terminal: c.Bool("tty"), Changes: ChangesOf(c),
				Prepare: p.prepare}))
		},
	}
}

func runFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "c", Usage: "run `CODE` instead of a file, in Python unless --language says otherwise"},
		&cli.StringFlag{Name: "language", Usage: "`LANGUAGE` of the script: python, node, shell, r or one of the configuration (default: by " +
			"its extension, or its first line)"},
		&cli.Float64Flag{Name: "timeout", Usage: "time limit in `SECONDS`", DefaultText: command.SeeConfig},
		&cli.Float64Flag{Name: "grace", Usage: "forward Ctrl-C or SIGTERM, and kill it after `SECONDS`; 0 kills it at once", Value: 10},
		&cli.Int64Flag{Name: "ram", Usage: "memory limit in `MB`, for all processes together", DefaultText: command.SeeConfig},
		&cli.Float64Flag{Name: "cpu", Usage: "limit of `CORES`", DefaultText: command.SeeConfig},
		&cli.IntFlag{Name: "processes", Usage: "allow `N` processes and threads, not counting the interpreter's", DefaultText: command.SeeConfig},
		&cli.Int64Flag{Name: "disk", Usage: "disk limit in `MB`, for /workspace, /tmp and /dev/shm together", DefaultText: command.SeeConfig},
		&cli.Int64Flag{Name: "output", Usage: "store at most `BYTES` of stdout, and as many of stderr for --json and the record",
			DefaultText: command.SeeConfig},
		&cli.StringSliceFlag{Name: "env", Usage: "set the environment variable `NAME=VALUE`", KeepSpace: true},
		&cli.StringSliceFlag{Name: "secret", Usage: "lease the secret `NAME` as an environment variable"},
		&cli.StringSliceFlag{Name: "allow", Usage: "allow connections only to `DOMAIN[:PORT]`, such as example.com, '*.example.com' or " +
			"db.example.com:5432, or to a port of this machine, localhost:3000"},
		&cli.BoolFlag{Name: "no-network", Usage: "allow no connections, whatever the configuration allows"},
		&cli.StringSliceFlag{Name: "mount", Usage: "mount a file or directory of the host: `HOST:PATH[:ro|rw]`, read-only by default"},
		&cli.StringSliceFlag{Name: "input", Usage: "copy the file or directory `PATH` into the workspace"},
		&cli.StringFlag{Name: "workspace", Usage: "mount a directory of the host as /workspace: `DIR[:ro|rw]`, read-only by default"},
		ChangesFlag(noChanges, "let the script change its view of --workspace, and review the changes afterwards: --changes=apply applies "+
			"them at exit code 0, --changes=drop shows and drops them"),
		&cli.StringFlag{Name: "artifacts", Usage: "save new files in `DIR`, with a SHA256SUMS"},
		&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` of the run", Value: "default"},
		&cli.StringFlag{Name: "backend", Usage: "isolation backend `NAME`: process, podman, docker or kubernetes",
			DefaultText: command.SeeConfig},
		&cli.StringFlag{Name: "gpus", Usage: "give a container graphics processors: `WHICH` is all, none, or indices such as 0,1",
			DefaultText: command.SeeConfig},
		&cli.StringFlag{Name: "profile", Usage: "`NAME` of the containment profile: hardened, landlock, or one of the configuration"},
		&cli.StringSliceFlag{Name: "require", Usage: "require the isolation `LAYER`"},
		&cli.BoolFlag{Name: "json", Usage: "print only the result, as JSON, at the end"},
		&cli.BoolFlag{Name: "tty", Usage: "run it on a terminal, as for a shell or an editor"},
		&cli.BoolFlag{Name: "raw", Usage: "pass all escape sequences to the terminal, not only colours: titles, the clipboard, the cursor"},
		&cli.BoolFlag{Name: "here", Usage: "run it in this process instead of a running server"},
		&cli.BoolFlag{Name: "quiet", Usage: "print only the script's output and errors"},
	}
}

// Job is what a command runs, and how its program and its result are handled beside the flags that all have.
type Job struct {
	Terminal bool          // the program runs on this terminal
	Changes  Changes       // to the workspace
	Grace    time.Duration // time after the first signal before the program is killed
	// Prepare returns the configuration in force and the request.
	Prepare func(ctx context.Context, c *cli.Context) (config.Config, run.Request, error)
	// Started, if not nil, is called before the program starts; the function that it returns is called when it has ended.
	Started func(stop *pipeline.Stopper) (ended func())
	// Finished, if not nil, is called with the result before it is reported.
	Finished func(pipeline.Outcome)
	// Unreached, if not nil, prints the names that the program could not reach.
	Unreached func([]egress.Record)
}

// Execute runs a job and returns the exit code of its program as an error.
func Execute(s *command.Streams, c *cli.Context, j Job) error {
	p := commands{s}
	memory.SpareFirst()
	stop := &pipeline.Stopper{Grace: j.Grace}
	var tty rawTerminal
	ctx, cancel := command.InterruptibleAfter(c.Context, stop.Signal, tty.release)
	defer cancel(nil)
	stdout, stderr := &command.Output{W: p.Out, Broken: cancel}, &command.Output{W: p.Err, Broken: cancel}
	var screen io.WriteCloser = &terminal.Filter{W: stdout, Open: c.Bool("raw") || !terminal.IsTerminal(p.Out)}
	if j.Terminal && !c.Bool("raw") {
		screen = &terminal.ScreenFilter{W: stdout}
	}
	beside := &terminal.Filter{W: stderr, Open: c.Bool("raw") || !terminal.IsTerminal(p.Err)}
	reviewer := p.openReviewer(c, j.Changes)
	defer reviewer.Close()
	res, err := p.execute(ctx, c, j, reviewer, stop, &tty, screen, beside)
	if j.Finished != nil {
		j.Finished(res)
	}
	if wait := stop.ReaderTimeout(res.Ended); wait > 0 && c.Bool("json") {
		time.AfterFunc(wait, p.LimitWrites)
	} else if wait > 0 { // they were waited for
		p.LimitWrites()
	}
	_, _ = screen.Close(), beside.Close()                     // errors here show below, too
	if c.Bool("json") && (err == nil || res.Refused != nil) { // otherwise the pipeline was not reached, and Main reports the reason
		if res.Refused != nil {
			res.ExitCode = exit.FromError(err).Code // 0 would read as success
		}
		terminal.WriteJSON(stdout, res) // errors here show below
	}
	r := Report{Streams: p.Streams, Result: res, quiet: c.Bool("quiet") || c.Bool("json"), inResult: c.Bool("json"),
		saved: c.String("artifacts"), unreached: j.Unreached}
	r.WriteWarnings()
	if stdout.IsUnread() {
		p.Messagef("the rest of the output was not written: nobody read it in time")
	}
	if code, why := r.interruptedExit(context.Cause(ctx), stdout.Err()); code != 0 {
		return &exit.Error{Code: code, Text: why}
	}
	if err != nil {
		return err
	}
	ended := r.writeEnd()
	if res.Changes != nil {
		return p.decideChanges(c, reviewer, j.Changes, *res.Changes, ended)
	}
	return ended
}

// prepare returns the configuration and the request in the command line of run.
func (p commands) prepare(ctx context.Context, c *cli.Context) (config.Config, run.Request, error) {
	if grace := c.Float64("grace"); !(grace >= 0 && grace <= 86_400) {
		return config.Config{}, run.Request{}, exit.Usage("--grace 10", "--grace %v is not between 0 and 86400 seconds", grace)
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return cfg, run.Request{}, err
	}
	if err := p.checkTTY(c); err != nil {
		return cfg, run.Request{}, err
	}
	request, err := requestUntil(ctx, p.In, c)
	if err == nil && len(request.GPUs) > 0 && cmp.Or(request.Backend, cfg.Backend) == "process" {
		err = exit.Usage("--backend docker, or --backend podman", "the process backend has no graphics processors: use containers")
	}
	return cfg, request, err
}

// execute runs the request of a job. Its output goes to stdout and stderr while it runs, unless only the result should
// have it.
func (p commands) execute(ctx context.Context, c *cli.Context, j Job, reviewer *console.Console, stop *pipeline.Stopper, tty *rawTerminal,
	stdout, stderr io.Writer) (pipeline.Outcome, error) {
	cfg, request, err := j.Prepare(ctx, c)
	if err != nil {
		return pipeline.Outcome{}, err
	}
	var person *console.Console // nobody is asked without a way to answer
	if cfg.Network == "ask" {
		if person = reviewer; person == nil {
			person = console.Open()
			defer person.Close()
		}
		if person == nil && request.Allow == nil {
			return pipeline.Outcome{}, exit.Fail("--allow DOMAIN allows a host, --no-network none; or start it where a person sees a terminal",
				"network: ask needs a terminal to ask about connections")
		}
	}
	request.Stop = stop
	if !c.Bool("json") {
		request.Stdout, request.Stderr, request.Whole = stdout, stderr, true
	}
	if reviewer != nil && person == nil && !j.Terminal {
		reviewer.Share(&request)
	}
	if server := wiring.HandOver(ctx, c, cfg, request); server != nil {
		res, err := server.Wait(ctx, request)
		if errors.Is(err, control.ErrLost) {
			err = exit.Fail("sandboxmcp audit shows its record; --here runs it in a process of its own", "%v", err)
		}
		return res, err
	}
	required := append(slices.Clone(cfg.Profiles[cmp.Or(request.Profile, cfg.Profile)].Require), request.Require...)
	why := wiring.Purpose{Backend: request.Backend, Delegate: slices.Contains(required, backends.LayerCgroup), Ask: person != nil}
	why.Local, _ = egress.CutLocal(request.Allow)
	if !c.Bool("quiet") && !c.Bool("json") {
		why.Progress = func(line string) { p.Messagef("%s", line) }
	}
	parts, err := wiring.New(ctx, cfg, why)
	if err != nil {
		return pipeline.Outcome{}, err
	}
	defer func() {
		if err := parts.Close(); err != nil {
			p.Messagef("warning: %v", err)
		}
		if err := wiring.PushLast(context.WithoutCancel(ctx), cfg, parts.Places); err != nil {
			p.Messagef("warning: %v", err)
		}
	}()
	if j.Terminal {
		if err := p.passTerminal(tty, &request, cfg); err != nil {
			return pipeline.Outcome{}, err
		}
		defer tty.release()
	}
	switch screen, drawn := stdout.(*terminal.ScreenFilter); {
	case person != nil && drawn:
		person.AttendScreen(&request, parts.Approvals, screen, tty.redraw)
	case person != nil:
		person.Attend(&request, parts.Approvals)
	case reviewer != nil && j.Terminal:
		reviewer.Share(&request)
	}
	if j.Started != nil {
		defer j.Started(stop)()
	}
	_, res, err := pipeline.Do(ctx, parts.Pipeline, request)
	return res, err
}
