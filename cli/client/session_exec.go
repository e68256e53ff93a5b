package client

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/run"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	runs "github.com/sandboxmcp/sandboxmcp/pipeline/run"
)

func (p commands) sessionExecCommand() *cli.Command {
	return &cli.Command{
		Name:      "exec",
		Usage:     "run code in a session",
		UsageText: "sandboxmcp session exec SESSION|--id SESSION [FILE|-] [-c CODE] [--timeout S] [--artifacts DIR] [--json] [--server PID]",
		Description: `The code is a file, CODE, or standard input, also as -. Its output is printed as it comes, and its value as in the
language's own prompt. --artifacts saves pictures and new files.

The exit code is 0; 1 after an error in the code; the code's own for exit; 124 at the time limit; 130 after Ctrl-C, which
leaves the session running; and 125 if the code could not run.

Example: sandboxmcp session exec 01K9ZB5W7Q -c 'print(6 * 7)'`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "c", Usage: "run `CODE`"},
			sessionFlag(),
			&cli.Float64Flag{Name: "timeout", Usage: "time limit in `SECONDS`", DefaultText: "the session's"},
			&cli.StringFlag{Name: "artifacts", Usage: "save pictures and new files in the directory `DIR`"},
			&cli.BoolFlag{Name: "json", Usage: "print only the result, as JSON, at the end"},
			ServerFlag(),
		},
		Action: func(c *cli.Context) error { return exit.AsRefusal(p.sessionExec(c)) },
	}
}

func (p commands) sessionExec(c *cli.Context) error {
	id, words, err := sessionArgument(c, 1)
	if err != nil {
		return err
	}
	cell, err := p.readCell(c, words)
	if err != nil {
		return err
	}
	ctx, cancel := command.Interruptible(c.Context)
	defer cancel(nil)
	client, err := connectSelected(ctx, c)
	if err != nil {
		return err
	}
	defer client.Close()
	screen := p.newCellOutput()
	res, err := p.runCell(ctx, client, id, cell, screen, c.Bool("json"))
	if errors.Is(err, command.ErrNoReader) {
		return exit.Silent(exit.Signalled + 13)
	}
	if err != nil {
		return withHint(err)
	}
	if c.Bool("json") {
		if err := terminal.WriteJSON(p.Out, res); err != nil {
			return err
		}
	}
	return p.reportCellEnd(res, c.Bool("json"))
}

// readCell reads the code that the command line names.
func (p commands) readCell(c *cli.Context, words []string) (cell control.Cell, err error) {
	if c.IsSet("timeout") && !command.IsPositive(c, "timeout") {
		return cell, exit.Usage("leave it out for the session's", "--timeout must be more than 0")
	}
	cell.Timeout = c.Float64("timeout")
	var code []byte
	switch {
	case c.IsSet("c") && len(words) > 0:
		return cell, exit.Usage("leave one of them out", "-c and a file contradict each other")
	case c.IsSet("c"):
		code = []byte(c.String("c"))
	case len(words) == 0 || words[0] == "-":
		code, err = run.ReadCode(p.In, "standard input")
	default:
		var r runs.Request
		err = run.ReadScript(p.In, &r, run.Source{File: words[0]})
		code, cell.Name = r.Code, r.Name
	}
	if err != nil {
		return cell, err
	}
	cell.Code = string(code)
	cell.Artifacts, err = run.ArtifactsDir(c)
	return cell, err
}

// runCell runs a cell. If ctx ends, it interrupts the cell and waits for the rest of its output. Output goes to the
// screen as it comes, or only into the result if s is quiet.
func (p commands) runCell(ctx context.Context, client *control.Client, id string, cell control.Cell, s *cellOutput,
	silent bool) (pipeline.Outcome, error) {
	var dir *hostfs.Dir // opened before the run; created with the first file
	if cell.Artifacts != "" {
		var err error
		if dir, err = hostfs.FindDir(cell.Artifacts); err != nil {
			return pipeline.Outcome{}, command.PathError("name a directory that can be written", "--artifacts", err)
		}
		defer dir.Close()
	}
	var run atomic.Value
	cut, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	defer leave(nil)
	defer context.AfterFunc(ctx, func() {
		err := context.Cause(ctx)
		if id, began := run.Load().(string); began {
			_, err = control.Call(cut, client, control.InterruptCell, control.OfRun{ID: id})
		}
		if err != nil {
			leave(context.Cause(ctx)) // not started yet, or the server does not read
		}
	})()
	var output [2][]byte
	var displays []kernel.Bundle
	res, err := client.Exec(cut, id, cell, func(part control.Part) (err error) {
		if part.Run != "" {
			run.Store(part.Run)
		}
		for n, text := range part.Output() {
			output[n] = append(output[n], text...)
			if err == nil && len(text) > 0 && !silent {
				_, err = []io.Writer{s.out, s.err}[n].Write(text)
			}
		}
		if part.Display != nil {
			displays = append(displays, part.Display)
		}
		if q := part.Asks; q != nil {
			p.Messagef("waiting for approval of %s %s: sandboxmcp approve %s", q.Kind, q.What, q.ID)
		}
		return err
	})
	res.Stdout, res.Stderr, res.Displays = string(output[0]), string(output[1]), displays
	if err == nil && dir != nil {
		err = savePictures(dir, res)
	}
	if !silent && err == nil {
		err = p.showCell(res, s, cell.Artifacts)
	}
	if broken := s.line.Err(); broken != nil {
		err = broken
	}
	return res, err
}

// reportCellEnd reports how a cell ended unless its output does, and returns its exit code as an error.
func (p commands) reportCellEnd(res pipeline.Outcome, quiet bool) error {
	if res.Refused != nil && res.Ended != backends.EndedCancelled {
		if quiet {
			return exit.Silent(exit.Refused)
		}
		return &exit.Error{Code: exit.Refused, Text: res.Refused.Reason, Hint: res.Refused.Remedy.String()}
	}
	if !quiet {
		p.reportCellNotes(res)
	}
	missing := run.Report{Streams: p.Streams, Result: res}.ReportCut("; sandboxmcp limits --session ID --output BYTES keeps more")
	switch res.Ended {
	case backends.EndedOK:
		if missing && !quiet { // the result has the numbers
			return exit.Silent(exit.Refused)
		}
		return nil
	case backends.EndedCancelled:
		return exit.Silent(exit.Signalled + 2)
	case backends.EndedTimeout:
		return exit.Silent(exit.Timeout)
	case backends.EndedOOM, backends.EndedLimit:
		return exit.Silent(exit.Signalled + 9)
	}
	return exit.Silent(max(1, res.ExitCode))
}

func (p commands) reportCellNotes(res pipeline.Outcome) {
	run.Report{Streams: p.Streams, Result: res}.WriteWarnings()
	switch res.Ended {
	case backends.EndedTimeout, backends.EndedOOM, backends.EndedLimit:
		p.Messagef("the code was ended after %.1f s: %s", res.WallMS/1000, run.HowEnded(&res))
	case backends.EndedCancelled:
		p.Messagef("interrupted")
	}
	if res.StateLost != "" {
		p.Messagef("%s", res.StateLost)
	}
	run.Report{Streams: p.Streams, Result: res}.ReportUnreached()
	for _, h := range res.Hints {
		p.Messagef("hint: %s", h)
	}
	if res.ArtifactsFailed != "" {
		p.Messagef("files could not all be saved: %s", res.ArtifactsFailed)
	}
}

// cellOutput is the output of a session's code: the standard streams, filtered if they are a terminal.
type cellOutput struct {
	out, err *terminal.Filter
	line     *command.Output // tracks whether stdout ended a line
}

func (p commands) newCellOutput() *cellOutput {
	line := &command.Output{W: p.Out}
	return &cellOutput{line: line, out: &terminal.Filter{W: line, Open: !terminal.IsTerminal(p.Out)},
		err: &terminal.Filter{W: p.Err, Open: !terminal.IsTerminal(p.Err)}}
}

// showCell prints the displays, value and error of a cell.
func (p commands) showCell(res pipeline.Outcome, s *cellOutput, saved string) error {
	var text strings.Builder
	for _, b := range append(slices.Clone(res.Displays), res.Value) {
		text.WriteString(bundleText(b, saved))
	}
	if text.Len() > 0 && s.line.MidLine() {
		io.WriteString(s.out, "\n")
	}
	_, err := io.WriteString(s.out, text.String())
	if e := res.Error; e != nil {
		io.WriteString(s.err, strings.TrimRight(cmp.Or(e.Traceback, e.Error()), "\n")+"\n")
	}
	return errors.Join(err, s.out.Close(), s.err.Close())
}

// bundleText formats a bundle for people: its text, and a line about the parts that a terminal can't show.
func bundleText(b kernel.Bundle, saved string) string {
	var text string
	if plain, ok := b["text/plain"]; ok {
		text = strings.TrimRight(plain, "\n") + "\n"
	}
	for _, kind := range slices.Sorted(maps.Keys(b)) {
		switch {
		case pictureSuffixes[kind] != "" && saved == "":
			text += fmt.Sprintf("(a picture was made, %s; --artifacts DIR saves it)\n", kind)
		case pictureSuffixes[kind] != "":
			text += fmt.Sprintf("(a picture was made, %s, and is in %s)\n", kind, saved)
		case b["text/plain"] == "" && text == "":
			text += fmt.Sprintf("(%s, %d bytes)\n", kind, len(b[kind]))
		}
	}
	return text
}

// pictureSuffixes are the media types of displays that are saved as files, with their suffixes.
var pictureSuffixes = map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp",
	"image/svg+xml": ".svg", "application/pdf": ".pdf"}

// savePictures saves the pictures of a cell as new files named after the run's id.
func savePictures(dir *hostfs.Dir, res pipeline.Outcome) error {
	n := 0
	for _, b := range append(slices.Clone(res.Displays), res.Value) {
		for _, kind := range slices.Sorted(maps.Keys(b)) {
			extension := pictureSuffixes[kind]
			if extension == "" {
				continue
			}
			data := []byte(b[kind])
			if kind != "image/svg+xml" {
				var err error
				if data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(b[kind]), "")); err != nil {
					return fmt.Errorf("a picture can't be saved: it is not a valid %s", kind)
				}
			}
			n++
			root, err := dir.Open()
			if err != nil {
				return fmt.Errorf("save a picture: %w", err)
			}
			f, err := root.OpenFile(fmt.Sprintf("%s-%d%s", res.ID, n, extension), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
			if err != nil {
				return fmt.Errorf("save a picture: %w", err)
			}
			_, err = f.Write(data)
			if err := errors.Join(err, f.Close()); err != nil {
				return fmt.Errorf("save a picture: %w", err)
			}
		}
	}
	return nil
}
