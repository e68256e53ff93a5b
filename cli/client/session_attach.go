package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/run"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

func (p commands) sessionAttachCommand() *cli.Command {
	return &cli.Command{
		Name:      "attach",
		Usage:     "type code into a session",
		UsageText: "sandboxmcp session attach SESSION|--id SESSION [--no-history] [--server PID]",
		Description: `Code runs in the session as soon as it is complete: an empty line ends a Python block, and two empty lines end any code.
Ctrl-C interrupts running code. Ctrl-D or exit detaches, and the session keeps running. %help lists more commands.

Lines are stored for the arrow keys, in history/LANGUAGE in the state directory, which only you can read. Secrets in
them can't be recognised: begin a line with a space, or use --no-history.

If standard input is not a terminal, the code comes from there, without a prompt: each piece runs as soon as it is
complete, and the first error ends the command with exit code 1. The exit code is also 1 if the session or the server
ends meanwhile.

Example: sandboxmcp session attach 01K9ZB5W7Q`,
		Flags: []cli.Flag{
			sessionFlag(), &cli.BoolFlag{Name: "no-history", Usage: "do not store the history"},
			&cli.StringFlag{Name: "artifacts", Usage: "save pictures and new files in the directory `DIR`"},
			ServerFlag(),
		},
		Action: p.sessionAttach,
	}
}

func (p commands) sessionAttach(c *cli.Context) error {
	id, _, err := sessionArgument(c, 0)
	if err != nil {
		return err
	}
	var form control.Cell
	if form.Artifacts, err = run.ArtifactsDir(c); err != nil {
		return err
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	ctx, stop := command.UntilSignals(c, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	client, err := connectSelected(ctx, c)
	if err != nil {
		return err
	}
	defer client.Close()
	info, err := findSession(ctx, client, id)
	if err != nil {
		return err
	}
	a := &attachment{commands: p, client: client, info: info, form: form, pane: p.newCellOutput()}
	if !terminal.IsInteractive(p.In) {
		return a.runScript(ctx)
	}
	tty := console.Open()
	if tty == nil {
		return exit.Fail("run it in the foreground, or give it code: echo 1+1 | sandboxmcp session attach ID", "there is no terminal to type at")
	}
	defer tty.Close()
	file := filepath.Join(cfg.StateDir, "history", info.Language)
	if c.Bool("no-history") {
		file = ""
	}
	past, err := console.OpenHistory(file)
	if err != nil {
		p.Messagef("history is off: %v", err)
	}
	return a.runTyped(ctx, console.NewPrompt(tty, past, info.Language))
}

// attachment is an attached terminal or script.
type attachment struct {
	commands
	client *control.Client
	info   session.Info
	form   control.Cell // template for each cell
	pane   *cellOutput
}

// runScript runs the code on standard input.
func (a *attachment) runScript(ctx context.Context) error {
	input := readLines(ctx, a.In)
	var lines []string
	for {
		line, err := "", error(nil)
		select {
		case next := <-input:
			line, err = next.text, next.err
		case <-ctx.Done():
			return exit.Silent(exit.Failed)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err == nil || line != "" {
			lines = append(lines, strings.TrimRight(line, "\r\n"))
		}
		if err == nil && console.Incomplete(a.info.Language, lines) {
			continue
		}
		code := strings.Join(lines, "\n")
		lines = nil
		if strings.TrimSpace(code) != "" {
			if ended, gone := a.runCode(ctx, code); gone != nil || ended != backends.EndedOK {
				return errors.Join(gone, exit.Silent(exit.Failed))
			}
		}
		if err != nil {
			return nil
		}
	}
}

// inputLine is a line with its line end, or the rest before an error.
type inputLine struct {
	text string
	err  error
}

// readLines returns a channel of the lines of r. It closes at an error or when ctx ends, even if a read blocks.
func readLines(ctx context.Context, r io.Reader) <-chan inputLine {
	lines, in := make(chan inputLine), bufio.NewReader(r)
	go func() {
		for {
			text, err := in.ReadString('\n')
			select {
			case lines <- inputLine{text, err}:
			case <-ctx.Done():
			}
			if err != nil || ctx.Err() != nil {
				return
			}
		}
	}()
	return lines
}

// exitWords lists the words by which people leave a prompt of the language. Executed, they would only end the cell.
var exitWords = map[string][]string{
	"python": {"exit", "exit()", "quit", "quit()"}, "node": {".exit", "exit"}, "shell": {"exit", "logout"}, "r": {"q()", "quit()", "exit"},
}

// isExitWord reports whether code is one of these words. Languages of the operator use the shell's.
func isExitWord(language, code string) bool {
	words, known := exitWords[language]
	if !known {
		words = exitWords["shell"]
	}
	return slices.Contains(words, strings.TrimSpace(code))
}

// runTyped runs the code that a person types.
func (a *attachment) runTyped(ctx context.Context, prompt *console.Prompt) error {
	fmt.Fprintf(a.Err, "session %s: %s, namespace %s, %s so far; Ctrl-D leaves it, %%help says more\n",
		terminal.Visible(a.info.ID), terminal.Visible(a.info.Language), terminal.Visible(a.info.Namespace), terminal.Count(a.info.Cells, "cell"))
	for {
		code, cause, err := a.readCode(ctx, prompt)
		if errors.Is(err, io.EOF) {
			fmt.Fprintln(a.Err)
		}
		switch {
		case errors.Is(err, io.EOF), err == nil && isExitWord(a.info.Language, code):
			a.Messagef("detached; session %s keeps running. End it with sandboxmcp session kill %s", a.info.ID, a.info.ID)
			return nil
		case err != nil && ctx.Err() == nil && cause != nil:
			return cause // the session or the server has ended
		case err != nil:
			return errors.Join(err, exit.Silent(exit.Failed))
		}
		if handled, err := a.runPercentCommand(ctx, code); handled && err != nil {
			return err
		} else if handled {
			continue
		}
		if strings.TrimSpace(code) == "" {
			continue
		}
		if _, gone := a.runCode(ctx, code); gone != nil {
			return gone
		}
		if ctx.Err() != nil {
			return exit.Silent(exit.Failed)
		}
		if a.pane.line.MidLine() {
			io.WriteString(a.pane.out, "\n")
		}
	}
}

// readCode reads a piece of code. cause is set if the session or the server ended meanwhile.
func (a *attachment) readCode(ctx context.Context, prompt *console.Prompt) (code string, cause, err error) {
	watching, enough := context.WithCancelCause(ctx)
	var watched sync.WaitGroup
	watched.Go(func() { a.watchSession(watching, enough) })
	code, err = prompt.Read(watching)
	cause = context.Cause(watching)
	enough(nil)
	watched.Wait()
	return code, cause, err
}

// pollInterval is the interval at which a session is polled while a person types.
const pollInterval = time.Second

// watchSession polls the session, and calls ended when the session or the server has ended.
func (a *attachment) watchSession(ctx context.Context, ended context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pollInterval):
		}
		if err := a.checkAlive(ctx); err != nil {
			ended(err)
			return
		}
	}
}

// checkAlive returns an error if the session or the server has ended.
func (a *attachment) checkAlive(ctx context.Context) error {
	if _, err := control.Call(ctx, a.client, control.ListUsage, control.OfLimits{Session: a.info.ID}); err != nil && ctx.Err() == nil {
		return a.endedError(err)
	}
	return nil
}

// endedError returns the error for a session or server that has ended.
func (a *attachment) endedError(err error) error {
	var f *control.Failure
	switch {
	case errors.As(err, &f):
		return exit.Fail("sandboxmcp session list", "session %s has ended: %s", a.info.ID,
			strings.TrimPrefix(f.Text, session.ErrDead.Error()+": "))
	case errors.Is(err, command.ErrNoReader):
		return exit.Silent(exit.Signalled + 13)
	}
	return exit.Fail("sessions end with their server", "the server has ended, and session %s with it", a.info.ID)
}

// runCode runs a piece of code and returns how it ended; an error means that the attachment can't continue.
func (a *attachment) runCode(ctx context.Context, code string) (ended string, gone error) {
	cell := a.form
	cell.Code = code
	interrupted, cancel := context.WithCancelCause(ctx)
	typed := make(chan os.Signal, 1)
	signal.Notify(typed, os.Interrupt)
	defer signal.Stop(typed)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel(nil)
	listening.Go(func() {
		select {
		case <-typed:
			cancel(command.Interruption{Signal: syscall.SIGINT})
		case <-interrupted.Done():
		}
	})
	res, err := a.runCell(interrupted, a.client, a.info.ID, cell, a.pane, false)
	switch refused := (*exit.Error)(nil); {
	case errors.Is(err, context.Canceled), err != nil && context.Cause(interrupted) == err:
		return backends.EndedCancelled, nil
	case err != nil:
		return "", a.endedError(err)
	case res.Refused != nil:
		if errors.As(a.reportCellEnd(res, false), &refused) && refused.Text != "" {
			_ = a.Exit(refused)
		}
		return backends.EndedRefused, a.checkAlive(ctx)
	}
	a.reportCellNotes(res)
	if res.Ended == backends.EndedCancelled || res.StateLost != "" { // possibly because the session ended
		gone = a.checkAlive(ctx)
	}
	return res.Ended, gone
}

// runPercentCommand executes a line that begins with %, and reports whether text was one.
func (a *attachment) runPercentCommand(ctx context.Context, text string) (bool, error) {
	switch strings.TrimSpace(text) {
	case "%help":
		_, err := io.WriteString(a.Out, `%help   this
%state  what is in the session
%kill   ends the session
Ctrl-C  interrupts the code that runs, or forgets what was typed
Ctrl-D  leaves, as exit does; the session goes on
`)
		return true, err
	case "%state":
		state, err := control.Call(ctx, a.client, control.InspectSession, control.OfSession{ID: a.info.ID})
		if err != nil {
			return true, a.endedError(err)
		}
		return true, showState(a.Out, state)
	case "%kill":
		info, err := control.Call(ctx, a.client, control.EndSession, control.OfSession{ID: a.info.ID})
		if err != nil {
			return true, a.endedError(err)
		}
		a.Messagef("session %s has ended after %s", info.ID, terminal.Count(info.Cells, "cell"))
		return true, exit.Silent(0)
	}
	return false, nil
}
