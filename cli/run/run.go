// Package run implements the command run: a script or a program in a sandbox, once.
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
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/memory"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// commands are the actions of this package on the streams of one invocation.
type commands struct{ *command.Streams }

// Command returns the command run.
func Command(s *command.Streams) *cli.Command {
	p := commands{s}
	return &cli.Command{
		Name:      "run",
		Usage:     "run a script or a program in a sandbox",
		UsageText: "sandboxmcp run [flags] FILE [flags] [-- args...]\nsandboxmcp run [flags] -- COMMAND [args...]\nsandboxmcp run [flags] -c CODE [-- args...]",
		Description: `FILE is a .py, .js, .mjs, .cjs, .ts, .sh, .bash or .R file, one whose first line names its interpreter
(#!/usr/bin/env python3, #!/bin/sh), or - for standard input.

COMMAND is a program that the sandbox shows: it looks on its own PATH, or in /workspace for a name with a
slash. The sandbox has all interpreters of this machine for it; with --language only that one, and in a
container that one's image.

The script sees nothing of this machine but its interpreters and itself (with --backend podman or docker,
those of an image), and no network but the names that --allow or the configuration lists. What it
leaves in its working directory, /workspace, are its artifacts.

To a file or a pipe, its output goes as it is. A terminal obeys its colours and progress bars, and shows other
escape sequences instead of obeying them; with --raw it obeys all.

Ctrl-C and SIGTERM are sent on to the script, which has --grace seconds to save its work; the next one kills it.

Who reads the output may be as slow as they like: a program waits for its reader, and its time goes on. Once its time is up, or a
signal was sent to it, what is not read within --grace seconds (2 at least) is dropped, which stderr says.

Where a server of yours runs that would do all as this process does, it runs it, with nothing to start first, for any --timeout up to five
minutes; --here has it run in this process.

With --tty the program has a terminal of its own: shells, editors and pagers work, and Ctrl-C is the program's. Its
time is caps.timeout_seconds of the configuration, unless --timeout says less.

The exit code is the script's; 124 when its time was up, 137 when it was killed for its memory, 127 when the sandbox
has no such COMMAND, 126 when that can't be executed, and 125 when sandboxmcp refused or could not run it.

Examples:
  sandboxmcp run script.py
  sandboxmcp run train.py --input data.csv --artifacts out --ram 2048 -- --epochs 3
  echo 'print(6 * 7)' | sandboxmcp run - --language python
  sandboxmcp run -c 'print(42)'
  sandboxmcp run --workspace . -- pytest -q
  sandboxmcp run --tty -- bash`,
		Flags: runFlags(),
		Action: func(c *cli.Context) error {
			return exit.AsRefusal(p.run(c))
		},
	}
}

func runFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "c", Usage: "run `CODE` instead of a file, in Python unless --language says otherwise"},
		&cli.StringFlag{Name: "language", Usage: "`LANGUAGE` of the script: python, node, shell, r or one of the configuration (default: by its extension, or its first line)"},
		&cli.Float64Flag{Name: "timeout", Usage: "`SECONDS` that it may take", DefaultText: command.SeeConfig},
		&cli.Float64Flag{Name: "grace", Usage: "`SECONDS` that it has to end by itself after Ctrl-C or SIGTERM, which it is sent; 0 kills it", Value: 10},
		&cli.Int64Flag{Name: "ram", Usage: "`MB` of memory for all of its processes together", DefaultText: command.SeeConfig},
		&cli.Float64Flag{Name: "cpu", Usage: "`CORES` that it may use", DefaultText: command.SeeConfig},
		&cli.IntFlag{Name: "processes", Usage: "`N` processes and threads, on top of what the interpreter needs", DefaultText: command.SeeConfig},
		&cli.Int64Flag{Name: "disk", Usage: "`MB` for /workspace, /tmp and /dev/shm together", DefaultText: command.SeeConfig},
		&cli.Int64Flag{Name: "output", Usage: "`BYTES` of stdout, and as many of stderr, that are kept for --json and the record", DefaultText: command.SeeConfig},
		&cli.StringSliceFlag{Name: "env", Usage: "set the environment variable `NAME=VALUE`", KeepSpace: true},
		&cli.StringSliceFlag{Name: "secret", Usage: "lend the secret `NAME` to it, as an environment variable"},
		&cli.StringSliceFlag{Name: "allow", Usage: "let it connect to `DOMAIN[:PORT]`, such as example.com, '*.example.com' or db.example.com:5432, or to a port of this machine, localhost:3000, and nothing else"},
		&cli.BoolFlag{Name: "no-network", Usage: "let it connect to nothing, whatever the configuration allows"},
		&cli.StringSliceFlag{Name: "mount", Usage: "show a file or directory of the host: `HOST:PATH[:ro|rw]`, read-only unless it says rw"},
		&cli.StringSliceFlag{Name: "input", Usage: "copy the file or directory `PATH` into the workspace"},
		&cli.StringFlag{Name: "workspace", Usage: "show the host's directory as /workspace: `DIR[:ro|rw]`, read-only unless it says rw"},
		changesFlag(),
		&cli.StringFlag{Name: "artifacts", Usage: "save what it leaves behind in `DIR`, with a SHA256SUMS"},
		&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` that the run belongs to", Value: "default"},
		&cli.StringFlag{Name: "backend", Usage: "`NAME` of what contains it: process, podman, docker or kubernetes", DefaultText: command.SeeConfig},
		&cli.StringFlag{Name: "gpus", Usage: "show it graphics processors, in a container: `WHICH` are all, none, or indices such as 0,1", DefaultText: command.SeeConfig},
		&cli.StringFlag{Name: "profile", Usage: "`NAME` of the containment profile: hardened, landlock, or one of the configuration"},
		&cli.StringSliceFlag{Name: "require", Usage: "refuse to run it without the `LAYER`"},
		&cli.BoolFlag{Name: "json", Usage: "print the whole result as JSON when it has ended, and nothing else"},
		&cli.BoolFlag{Name: "tty", Usage: "give it a terminal of its own, which this one shows, as for a shell or an editor"},
		&cli.BoolFlag{Name: "raw", Usage: "let a terminal obey all that the script writes, not only colours: titles, the clipboard, the cursor"},
		&cli.BoolFlag{Name: "here", Usage: "run it in this process, also where a server of yours would run it sooner"},
		&cli.BoolFlag{Name: "quiet", Usage: "say nothing but the script's own output and errors"},
	}
}

func (p commands) run(c *cli.Context) error {
	memory.SpareFirst()
	stop := &pipeline.Stop{Grace: time.Duration(c.Float64("grace") * float64(time.Second))}
	var tty rawTerminal
	ctx, cancel := command.InterruptibleAfter(c.Context, stop.Signal, tty.release)
	defer cancel(nil)
	stdout, stderr := &command.Output{W: p.Out, Broken: cancel}, &command.Output{W: p.Err, Broken: cancel}
	var screen io.WriteCloser = &terminal.Filter{W: stdout, Open: c.Bool("raw") || !terminal.IsTerminal(p.Out)}
	if c.Bool("tty") && !c.Bool("raw") {
		screen = &terminal.ScreenFilter{W: stdout}
	}
	beside := &terminal.Filter{W: stderr, Open: c.Bool("raw") || !terminal.IsTerminal(p.Err)}
	reviewer := p.openReviewer(c)
	defer reviewer.Close()
	res, err := p.execute(ctx, c, reviewer, stop, &tty, screen, beside)
	if wait := stop.ReaderWait(res.Ended); wait > 0 && c.Bool("json") {
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
	r := Report{Streams: p.Streams, Result: res, quiet: c.Bool("quiet") || c.Bool("json"), inResult: c.Bool("json"), saved: c.String("artifacts")}
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
		return p.decideChanges(c, reviewer, *res.Changes, ended)
	}
	return ended
}

// execute runs the request in the command line. Its output goes to stdout and stderr while it runs, unless only the
// result should have it.
func (p commands) execute(ctx context.Context, c *cli.Context, reviewer *console.Console, stop *pipeline.Stop, tty *rawTerminal, stdout, stderr io.Writer) (pipeline.Outcome, error) {
	if grace := c.Float64("grace"); !(grace >= 0 && grace <= 86_400) {
		return pipeline.Outcome{}, exit.Usage("--grace 10", "--grace %v is no number of seconds from 0 to 86400", grace)
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return pipeline.Outcome{}, err
	}
	if err := p.checkTTY(c, cfg); err != nil {
		return pipeline.Outcome{}, err
	}
	var person *console.Console // nobody is asked without a way to answer
	if cfg.Network == "ask" && !c.Bool("tty") {
		if person = reviewer; person == nil {
			person = console.Open()
			defer person.Close()
		}
		if person == nil && !c.Bool("no-network") && len(c.StringSlice("allow")) == 0 {
			return pipeline.Outcome{}, exit.Fail("--allow DOMAIN names what it may reach, and --no-network is nothing; or start it where a person sees a terminal",
				"network: ask wants a person asked about what it connects to, and there is no terminal to ask at")
		}
	}
	request, err := requestUntil(ctx, p.In, c)
	if err != nil {
		return pipeline.Outcome{}, err
	}
	if len(request.GPUs) > 0 && cmp.Or(request.Backend, cfg.Backend) == "process" {
		return pipeline.Outcome{}, exit.Usage("--backend docker, or --backend podman", "the backend process shows no graphics processors: containers can")
	}
	request.Stop = stop
	if !c.Bool("json") {
		request.Stdout, request.Stderr, request.Whole = stdout, stderr, true
	}
	if reviewer != nil && person == nil && !c.Bool("tty") {
		reviewer.Share(&request)
	}
	if server := wiring.HandOver(ctx, c, cfg, request); server != nil {
		res, err := server.Do(ctx, request)
		if errors.Is(err, control.ErrLost) {
			err = exit.Fail("sandboxmcp audit has what is known of it; with --here, it runs in a process of its own", "%v", err)
		}
		return res, err
	}
	required := append(slices.Clone(cfg.Profiles[cmp.Or(c.String("profile"), cfg.Profile)].Require), c.StringSlice("require")...)
	why := wiring.Purpose{Backend: c.String("backend"), Delegate: slices.Contains(required, backends.LayerCgroup), Ask: person != nil}
	why.Local, _ = egress.CutLocal(c.StringSlice("allow"))
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
	if person != nil {
		person.Attend(&request, parts.Approvals)
	}
	if c.Bool("tty") {
		if err := p.passTerminal(tty, &request, cfg); err != nil {
			return pipeline.Outcome{}, err
		}
		defer tty.release()
		if reviewer != nil {
			reviewer.Share(&request)
		}
	}
	_, res, err := pipeline.Do(ctx, parts.Pipeline, request)
	return res, err
}
