package outside

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
)

func (p commands) hostExecCommand() *cli.Command {
	return &cli.Command{
		Name:      "exec",
		Usage:     "run one command, as an agent would",
		UsageText: "sandboxmcp host exec [flags] WORDS... | 'COMMAND'",
		Description: `The command runs without a shell; a single word in quotes is split at its blanks. A command that is not allowed is
asked for at the terminal, for this one time. Flags of sandboxmcp come before the first word.

The exit code is the command's; 124 at the time limit, 125 if it was refused or could not run.

Example: sandboxmcp host exec git status --short`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "directory", Usage: "run it in `DIR`, below a directory that is allowed (default: the first of these)"},
			&cli.Float64Flag{Name: "timeout", Usage: "time limit in `SECONDS`", DefaultText: command.SeeConfig},
			&cli.BoolFlag{Name: "stdin", Usage: "pass standard input to it"},
			command.NamespaceFlag(), command.JSONFlag(),
		},
		Action: func(c *cli.Context) error { return exit.AsRefusal(p.hostExec(c)) },
	}
}

func (p commands) hostExec(c *cli.Context) error {
	if c.NArg() == 0 {
		return exit.Usage("sandboxmcp host exec git status --short", "exec needs a command")
	}
	if c.IsSet("timeout") && !command.IsPositive(c, "timeout") {
		return exit.Usage("leave it out for the default", "--timeout must be more than 0")
	}
	q := host.Exec{Namespace: c.String("namespace"), Directory: c.String("directory"), Timeout: command.Seconds(c.Float64("timeout"))}
	if words := c.Args().Slice(); len(words) == 1 && strings.Contains(words[0], " ") {
		q.Command = words[0]
	} else {
		q.Words = host.Words(words)
	}
	if c.Bool("stdin") {
		q.Stdin = p.In
	}
	var res pipeline.Outcome
	err := p.withHost(c, wiring.Purpose{}, func(ctx context.Context, line *pipeline.Pipeline, who host.Caller) (err error) {
		q.Ask = who.Ask
		var end host.ExecEnd
		end, res, err = pipeline.Do(ctx, line, q)
		if c.Bool("json") && (err == nil || res.Refused != nil) {
			err = errors.Join(err, p.writeHost(res, end))
		}
		return err
	})
	if err != nil {
		return err
	}
	if !c.Bool("json") {
		p.showHost(res)
	}
	switch res.Ended {
	case backends.EndedTimeout:
		return &exit.Error{Code: exit.Timeout, Text: "the command's time was up",
			Hint: "--timeout, up to host.timeout_seconds in the configuration"}
	case backends.EndedOK:
		if res.StdoutCut+res.StderrCut > 0 && !c.Bool("json") { // the result has the numbers
			return exit.Silent(exit.Refused)
		}
		return nil
	}
	return exit.Silent(res.ExitCode)
}

// showHost prints a command's output. On a terminal it escapes control sequences except for colours.
func (p commands) showHost(res pipeline.Outcome) {
	for _, one := range []struct {
		to   io.Writer
		text string
		cut  int64
		name string
	}{{p.Out, res.Stdout, res.StdoutCut, "stdout"}, {p.Err, res.Stderr, res.StderrCut, "stderr"}} {
		screen := &terminal.Filter{W: one.to, Open: !terminal.IsTerminal(one.to)}
		_, _ = io.WriteString(screen, one.text) // the reader has gone
		_ = screen.Close()
		if one.cut > 0 {
			p.Messagef("the last %d bytes of %s were dropped: %d are stored", one.cut, one.name, host.DefaultHostOutput)
		}
	}
	for _, w := range res.Warnings {
		p.Messagef("warning: %s", w)
	}
}

// writeHost prints the common members of results, and the end of a command on the host.
func (p commands) writeHost(res pipeline.Outcome, end host.ExecEnd) error {
	all, err := json.Marshal(res)
	if err != nil {
		return err
	}
	own, err := json.Marshal(end)
	if err != nil {
		return err
	}
	return terminal.WriteJSON(p.Out, json.RawMessage(slices.Concat(all[:len(all)-1], []byte(","), own[1:])))
}
