// Package cli is the command line: one file a command. It is the only place where the parts are
// wired together.
package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// Exit codes beside the program's own.
const (
	exitFailed    = 1   // a command other than run could not do what it should, or found a fault
	exitUsage     = 2   // a command other than run was typed wrong
	exitTimeout   = 124 // as timeout(1) says it
	exitOurs      = 125 // run: we refused, or could not run it
	exitUnable    = 126 // run: the command can't be executed, as shells say it
	exitAbsent    = 127 // run: there is no such command in the sandbox
	exitSignalled = 128 // plus the signal, which is SIGKILL for all limits but the time
)

// exitCodes is what the help says of them.
const exitCodes = `Flags may stand before or after the other words. sandboxmcp COMMAND --help says more, with an example.

Exit codes:
  0    it did what it should
  1    it could not do what it should, or found a fault
  2    it was typed wrong
of sandboxmcp run, beside those of the script itself:
  124  the script's time was up
  125  sandboxmcp refused to run it, or could not
  126  the command can't be executed in the sandbox
  127  there is no such command in the sandbox
  128  and more: a signal ended it, 137 being SIGKILL, as for its memory

With --json, what went wrong is on standard output, too: {"refused":{"reason":"...","remedy":"..."},"exit_code":1}`

// Main runs one command line, args[0] being the program's name, and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr}
	app := p.app()
	path, asked := asksJSON(app, args)
	if !asked {
		var help strings.Builder // all that the library prints
		app.Writer = &help
		typed, err := parse(app, args)
		if err == nil {
			err = app.Run(typed)
		}
		_, _ = io.WriteString(stdout, foldHelp(help.String(), width(stdout)))
		return p.exit(err)
	}
	out := &tracked{Writer: stdout}
	p.stdout, app.Writer = out, out
	typed, err := parse(app, args)
	if err == nil {
		err = app.Run(typed)
	}
	code := p.exit(err)
	if err != nil && !out.written {
		p.refused(path, asFailure(err))
	}
	return code
}

// tracked knows whether something was written.
type tracked struct {
	io.Writer
	written bool
}

func (t *tracked) Write(b []byte) (int, error) {
	t.written = t.written || len(b) > 0
	return t.Writer.Write(b)
}

// refused prints what went wrong for a program that reads JSON. It is of the form of what run prints, which has more.
func (p *program) refused(path []string, f *failure) {
	if f.text == "" {
		return // it is another program's failure, or was said
	}
	why := pipeline.Error{Reason: f.text, Remedy: f.hint, Denied: true}
	if slices.Equal(path, []string{"run"}) {
		_ = writeJSON(p.stdout, pipeline.Result{Ended: backends.EndedRefused, ExitCode: f.code, Refused: &why}) // stderr has said it
		return
	}
	var o struct {
		Refused struct {
			Reason string `json:"reason"`
			Remedy string `json:"remedy,omitempty"`
		} `json:"refused"`
		ExitCode int `json:"exit_code"`
	}
	o.Refused.Reason, o.Refused.Remedy, o.ExitCode = why.Reason, why.Remedy, f.code
	_ = writeJSON(p.stdout, o)
}

// program is one invocation.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

func (p *program) app() *cli.App {
	commands := []*cli.Command{
		p.runCommand(), p.serveCommand(), p.approvalsCommand(), p.approveCommand(), p.denyCommand(), p.egressCommand(), p.vaultCommand(),
		p.auditCommand(), p.eventsCommand(), p.verifyCommand(), p.keyCommand(), p.imageCommand(), p.doctorCommand(), p.benchCommand(), p.configCommand(), p.setupCommand(), p.versionCommand(),
		p.artifactsCommand(), p.validateCommand(), p.installCommand(), p.runtimesCommand(), p.completionCommand(), p.manCommand(), p.askCommand(),
		p.webCommand(), p.hostCommand(),
		p.queueCommand(), p.sessionCommand(), p.inspectCommand(), p.bridgeCommand(), p.limitsCommand(),
	}
	prepare(commands)
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
		Commands: inOrder(commands),
		Reader:   p.stdin, Writer: p.stdout, ErrWriter: p.stderr,
		HideVersion:               true,
		HideHelpCommand:           true, // parse knows it
		DisableSliceFlagSeparator: true, // --env A=1,2 is one variable
		ExitErrHandler:            func(*cli.Context, error) {},
	}
}

// subcommandMissing is the action of a command that does nothing but have others below it.
func subcommandMissing(c *cli.Context) error {
	path := strings.TrimPrefix(c.Command.HelpName, "sandboxmcp ")
	if c.NArg() > 0 && path != "vault" { // there it may be the value of a secret
		return usage(c.Command.HelpName+" --help", "there is no command %q", path+" "+c.Args().First())
	}
	names := commandNames(c.Command.Subcommands)
	last := len(names) - 1
	return usage(c.Command.HelpName+" --help", "say what to do: sandboxmcp %s %s or %s", path, strings.Join(names[:last], ", "), names[last])
}

// prepare gives commands, and those below them, what all of ours have.
func prepare(commands []*cli.Command) {
	for _, c := range commands {
		c.OnUsageError, c.HideHelpCommand = typedWrong, true
		for _, f := range c.Flags {
			if b, ok := f.(*cli.BoolFlag); ok {
				b.DisableDefaultText = !b.Value
			}
		}
		if c.Action == nil {
			c.Action = subcommandMissing
		}
		prepare(c.Subcommands)
	}
}

// typedWrong takes the place of urfave/cli's own answer to a bad value, which is the whole help.
func typedWrong(c *cli.Context, err error, _ bool) error {
	err = usage(c.Command.HelpName+" --help", "%s", badValue(err, c.Command.Flags))
	switch c.Command.HelpName {
	case "sandboxmcp run", "sandboxmcp host exec", "sandboxmcp session exec": // whose other codes are a program's
		return ours(err)
	}
	return err
}

// A failure is an error with an exit code and something to type.
type failure struct {
	code int
	text string // "" prints nothing: it was said already
	hint string
}

func (f *failure) Error() string { return f.text }

// usage is for what was typed wrong.
func usage(hint, format string, args ...any) error {
	return &failure{code: exitUsage, text: fmt.Sprintf(format, args...), hint: hint}
}

// fail is for what could not be done.
func fail(hint, format string, args ...any) error {
	return &failure{code: exitFailed, text: fmt.Sprintf(format, args...), hint: hint}
}

// silent ends with an exit code and without a word.
func silent(code int) error { return &failure{code: code} }

// asFailure returns err as a failure with an exit code.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	var stopped *pipeline.Error
	if errors.As(err, &stopped) {
		f := &failure{code: exitOurs, text: stopped.Reason, hint: ownWords(stopped.Remedy)}
		if no, ok := errors.AsType[*backends.NoProgram](err); ok && no.Found {
			f.code = exitUnable
		} else if ok {
			f.code = exitAbsent
		}
		return f
	}
	var refusal *backends.Refusal
	if errors.As(err, &refusal) {
		return &failure{code: exitFailed, text: refusal.Reason, hint: ownWords(refusal.Remedy)}
	}
	return &failure{code: exitFailed, text: err.Error()}
}

// notDone gives a refusal the exit code of a command that could not do what it should.
func notDone(err error) error {
	var refused *pipeline.Error
	if errors.As(err, &refused) {
		return &failure{code: exitFailed, text: refused.Reason, hint: refused.Remedy}
	}
	return err
}

// ours gives what went wrong in run, if anything did, the exit code that no script should use.
func ours(err error) error {
	if err == nil {
		return nil
	}
	f := *asFailure(err)
	if f.text != "" && (f.code == exitFailed || f.code == exitUsage) {
		f.code = exitOurs
	}
	return &f
}

// exit says what went wrong, if anything did, and returns the exit code.
func (p *program) exit(err error) int {
	if err == nil {
		return 0
	}
	f := asFailure(err)
	if f.text != "" {
		p.say("%s", f.text)
	}
	if f.hint != "" {
		p.say("hint: %s", f.hint)
	}
	return f.code
}

// say writes one message to stderr. It may quote what others wrote, so it shows escapes instead
// of sending them to the terminal.
func (p *program) say(format string, args ...any) {
	lines := strings.Split(strings.TrimSpace(fmt.Sprintf(format, args...)), "\n")
	for i, l := range lines {
		lines[i] = visible(l)
	}
	fmt.Fprintf(p.stderr, "sandboxmcp: %s\n", strings.Join(lines, "\n    "))
}
