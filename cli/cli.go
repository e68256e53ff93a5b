// Package cli implements the command line: a file for each command, and a package for each group of commands that share
// more than the streams and the configuration.
//
// coreos/go-systemd tells systemd when a server is ready.
package cli

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/agent"
	"github.com/sandboxmcp/sandboxmcp/cli/backup"
	"github.com/sandboxmcp/sandboxmcp/cli/changes"
	"github.com/sandboxmcp/sandboxmcp/cli/client"
	"github.com/sandboxmcp/sandboxmcp/cli/cmdline"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/evidence"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/machine"
	"github.com/sandboxmcp/sandboxmcp/cli/outside"
	"github.com/sandboxmcp/sandboxmcp/cli/run"
	"github.com/sandboxmcp/sandboxmcp/cli/secrets"
	"github.com/sandboxmcp/sandboxmcp/cli/setup"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// exitCodes is the section of the help about exit codes.
const exitCodes = `Flags may come before or after arguments. sandboxmcp COMMAND --help has details and examples.

Exit codes:
  0    success
  1    failure, or a fault was found
  2    usage error
of sandboxmcp run, in addition to those of the script:
  124  time limit reached
  125  sandboxmcp refused or failed to run it
  126  the command can't be executed in the sandbox
  127  the command does not exist in the sandbox
  128+ a signal ended it; 137 is SIGKILL, as by the memory limit

With --json, errors are on standard output, too: {"refused":{"reason":"...","remedy":"..."},"exit_code":1}`

// Main runs one command line, whose first word is the program's name, and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{Streams: command.NewStreams(stdin, stdout, stderr)}
	return p.main(args, stdout)
}

func (p *program) main(args []string, stdout io.Writer) int {
	defer p.Close()
	app := p.app()
	path, asked := cmdline.AsksJSON(app, args)
	out := &tracked{Writer: p.Out}
	var help strings.Builder // output of the library
	app.Writer = &help
	if asked {
		p.Out, app.Writer = out, out
	}
	typed, err := cmdline.Parse(app, args)
	if err == nil {
		err = app.RunContext(p.Context(), typed)
	}
	_, _ = io.WriteString(p.Out, terminal.Fold(help.String(), terminal.Width(stdout)))
	code := p.Exit(err)
	if asked && err != nil && !out.written {
		p.printRefusal(path, exit.FromError(err))
	}
	return code
}

// tracked records whether anything was written to it.
type tracked struct {
	io.Writer
	written bool
}

func (t *tracked) Write(b []byte) (int, error) {
	t.written = t.written || len(b) > 0
	return t.Writer.Write(b)
}

// printRefusal prints an error for a program that reads JSON, in the form of run's output, which has more members.
func (p *program) printRefusal(path []string, f *exit.Error) {
	if f.Text == "" {
		return // another program's failure, or reported already
	}
	if slices.Equal(path, []string{"run"}) {
		// reported on stderr as well
		_ = terminal.WriteJSON(p.Out, pipeline.Outcome{End: backends.End{Ended: backends.EndedRefused, ExitCode: f.Code},
			Refused: &pipeline.Error{Reason: f.Text, Remedy: pipeline.Remedy{f.Hint}, Denied: true}})
		return
	}
	var o struct {
		Refused struct {
			Reason string `json:"reason"`
			Remedy string `json:"remedy,omitempty"`
		} `json:"refused"`
		ExitCode int `json:"exit_code"`
	}
	o.Refused.Reason, o.Refused.Remedy, o.ExitCode = f.Text, f.Hint, f.Code
	_ = terminal.WriteJSON(p.Out, o)
}

// program is one invocation.
type program struct {
	*command.Streams
	idle time.Duration // idle time after which a server stops templates and pools; 0 is the default, tests set less
}

func (p *program) app() *cli.App {
	commands := []*cli.Command{
		run.Command(p.Streams), agent.Command(p.Streams), p.serveCommand(), p.benchCommand(), p.configCommand(), setup.Command(p.Streams),
		p.versionCommand(),
		p.validateCommand(), p.installCommand(), p.completionCommand(), p.manCommand(), p.completionWordsCommand(),
	}
	commands = slices.Concat(commands, machine.Commands(p.Streams), []*cli.Command{changes.Command(p.Streams)}, evidence.Commands(p.Streams),
		secrets.Commands(p.Streams), backup.Commands(p.Streams), client.Commands(p.Streams), outside.Commands(p.Streams))
	prepareCommands(commands)
	return &cli.App{
		Name:  "sandboxmcp",
		Usage: "run code in a sandbox that the kernel enforces, and keep a receipt of every run",
		UsageText: `sandboxmcp [--config FILE] [--db FILE] COMMAND [flags] ...

Example: sandboxmcp run script.py`,
		Description: exitCodes,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Usage: "read settings from `FILE` instead of the user's own file"},
			&cli.StringFlag{Name: "db", Usage: "use the database `FILE` instead of the one in the state directory"},
		},
		Commands: sortCommands(commands),
		Reader:   p.In, Writer: p.Out, ErrWriter: p.Err,
		HideVersion:               true,
		HideHelpCommand:           true, // Parse handles it
		DisableSliceFlagSeparator: true, // --env A=1,2 is one variable
		ExitErrHandler:            func(*cli.Context, error) {},
	}
}

// subcommandMissing is the action of a command that only groups others.
func subcommandMissing(c *cli.Context) error {
	path := strings.TrimPrefix(c.Command.HelpName, "sandboxmcp ")
	if c.NArg() > 0 && path != "vault" && path != "token" { // the word may be a secret there
		return exit.Usage(c.Command.HelpName+" --help", "unknown command %q", path+" "+c.Args().First())
	}
	names := cmdline.CommandNames(c.Command.Subcommands)
	last := len(names) - 1
	return exit.Usage(c.Command.HelpName+" --help", "missing subcommand: sandboxmcp %s %s or %s", path, strings.Join(names[:last], ", "),
		names[last])
}

// prepareCommands sets the fields that all commands and subcommands share.
func prepareCommands(commands []*cli.Command) {
	for _, c := range commands {
		c.OnUsageError, c.HideHelpCommand = usageError, true
		for _, f := range c.Flags {
			if b, ok := f.(*cli.BoolFlag); ok {
				b.DisableDefaultText = !b.Value
			}
		}
		if c.Action == nil {
			c.Action = subcommandMissing
		}
		prepareCommands(c.Subcommands)
	}
}

// usageError replaces urfave/cli's answer to a bad value, which prints the whole help.
func usageError(c *cli.Context, err error, _ bool) error {
	err = exit.Usage(c.Command.HelpName+" --help", "%s", cmdline.BadValue(err, c.Command.Flags))
	switch c.Command.HelpName {
	case "sandboxmcp run", "sandboxmcp host exec", "sandboxmcp session exec": // their other exit codes are the program's
		return exit.AsRefusal(err)
	}
	return err
}

// commandOrder is the order of commands in the help: beginners' commands first. Others come last.
func commandOrder() []string {
	return []string{
		"run", "validate", "install", "runtimes", "artifacts", "changes", // code
		"agent", // whole agents
		// agents and their server
		"setup", "serve", "start", "stop", "status", "page", "session", "queue", "inspect", "bridge", "limits", "events",
		"approvals", "approve", "deny", "egress", "vault", "token", // what people decide
		"web", "host", // outside of sandboxes
		"audit", "verify", "key", "backup", "restore", // what stays
		"doctor", "config", "image", "bench", "completion", "man", "version", // this machine
	}
}

func sortCommands(commands []*cli.Command) []*cli.Command {
	place := map[string]int{}
	for i, name := range commandOrder() {
		place[name] = i + 1
	}
	slices.SortStableFunc(commands, func(a, b *cli.Command) int {
		return cmp.Compare(cmp.Or(place[a.Name], len(place)+1), cmp.Or(place[b.Name], len(place)+1))
	})
	return commands
}
