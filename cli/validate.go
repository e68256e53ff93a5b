package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/run"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	runs "github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

func (p *program) validateCommand() *cli.Command {
	return &cli.Command{
		Name:      "validate",
		Usage:     "check a script without running it: syntax, missing imports, dangerous patterns",
		UsageText: "sandboxmcp validate FILE [--language LANGUAGE] [--no-auto-fix] [--write] [--json]",
		Description: `FILE may be - for standard input, with --language. Each finding is on a line of its own, as FILE:LINE:COLUMN.
If imports are missing, it prints a diff that adds them; --write changes FILE. Containment does not depend on the
findings.

The exit code is 0 if the language's parser accepts the code, and 1 if not. R, and shell code that our parser does not
support, can only be tested by running it: nothing is refused, and a note says so.

Examples:
  sandboxmcp validate script.py
  sandboxmcp validate script.py --write
  cat app.js | sandboxmcp validate - --language node --no-auto-fix`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "language", Usage: "`LANGUAGE` of the script: python, node, shell, r or one of the configuration (default: by " +
				"its extension)"},
			&cli.BoolFlag{Name: "no-auto-fix", Usage: "do not add missing imports: only name them"},
			&cli.BoolFlag{Name: "write", Usage: "write the code with its missing imports back to FILE"},
			command.JSONFlag(),
		},
		Action: command.ExactlyOneWord(p.validate, "sandboxmcp validate script.py", "validate needs one FILE, or - for standard input"),
	}
}

// validation is the output of validate.
type validation struct {
	File     string             `json:"file"`
	Language string             `json:"language"`
	Valid    bool               `json:"valid"`  // the language's parser accepts it
	Judged   bool               `json:"judged"` // there was such a parser
	Problems []validate.Problem `json:"problems"`
	Missing  []validate.Import  `json:"missing_imports"`
	Dangers  []validate.Danger  `json:"dangers"`
	Fixed    string             `json:"fixed,omitempty"` // the code with missing imports added, if there were any
	Diff     string             `json:"diff,omitempty"`
	Written  bool               `json:"written"` // to the file
	Notes    []string           `json:"notes"`
}

func (p *program) validate(c *cli.Context) error {
	file := c.Args().First()
	switch {
	case c.Bool("write") && c.Bool("no-auto-fix"):
		return exit.Usage("leave one of them out", "--write and --no-auto-fix contradict each other")
	case c.Bool("write") && file == "-":
		return exit.Usage("sandboxmcp validate - --language python --json", "--write needs a FILE: standard input can't be written to")
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	code, err := p.codeOf(file, c.String("language"), slices.Collect(maps.Keys(cfg.Runtimes)))
	if err != nil {
		return err
	}
	ctx, stop := command.UntilSignal(c)
	defer stop()
	parts, err := wiring.New(ctx, cfg, wiring.Purpose{})
	if err != nil {
		return err
	}
	defer parts.Close()
	if other := containment.OtherLanguage(parts.Pipeline, code.Language, code.Name); other != "" {
		return p.validateOther(ctx, c, parts, file, code, other)
	}
	report, err := runs.Analyze(ctx, parts.Pipeline, code, validate.Options{Fix: !c.Bool("no-auto-fix")})
	if err != nil {
		return err
	}
	if report.Language == "" && len(report.Problems) > 0 { // of an unknown language
		return exit.Usage("sandboxmcp validate "+file+" --language python", "%s", report.Problems[0].Text)
	}
	found := validation{File: file, Language: report.Language, Valid: report.Valid, Judged: report.Judged || !report.Valid,
		Problems: append([]validate.Problem{}, report.Problems...), Missing: append([]validate.Import{}, report.Missing...),
		Dangers: append([]validate.Danger{}, report.Dangers...), Fixed: report.Fixed, Diff: report.Diff,
		Notes: append([]string{}, report.Notes...)}
	if c.Bool("write") && found.Fixed != "" {
		if err := writeBack(file, code.Source, []byte(found.Fixed)); err != nil {
			return err
		}
		found.Written = true
	}
	return exit.UnlessOK(found.Valid, p.Printf(c, found, "%s", found))
}

// validateOther runs the configured check command of a language on code, in a sandbox.
func (p *program) validateOther(ctx context.Context, c *cli.Context, parts *wiring.Parts, file string, code validate.Code,
	language string) error {
	if c.Bool("write") {
		return exit.Usage("leave out --write", "code of %s is only checked", language)
	}
	_, res, err := pipeline.Do(ctx, parts.Pipeline, runs.Request{
		Language: language, Name: code.Name, Code: code.Source, CheckOnly: true,
	})
	if err != nil {
		return err
	}
	found := validation{File: file, Language: language, Valid: res.Ended == backends.EndedOK, Judged: true,
		Problems: []validate.Problem{}, Missing: []validate.Import{}, Dangers: []validate.Danger{}, Notes: []string{}}
	if says := strings.TrimSpace(res.Stdout + res.Stderr); !found.Valid {
		first, rest, _ := strings.Cut(cmp.Or(says, "the check ended with exit code "+strconv.Itoa(res.ExitCode)), "\n")
		found.Problems = append(found.Problems, validate.Problem{Text: first, Snippet: rest})
	} else if says != "" {
		found.Notes = append(found.Notes, says)
	}
	return exit.UnlessOK(found.Valid, p.Printf(c, found, "%s", found))
}

// codeOf reads the code in the command line. others are languages of the configuration.
func (p *program) codeOf(file, language string, others []string) (validate.Code, error) {
	code := validate.Code{Language: language}
	if file == "-" && language == "" {
		return code, exit.Usage("sandboxmcp validate - --language python", "the language of standard input is unknown: give --language")
	}
	if language != "" {
		if _, err := validate.Language(language); err != nil && !slices.Contains(others, language) {
			return code, exit.Usage("--language python, node, shell or r", "--language: %v", err)
		}
	}
	from := p.In
	if file != "-" {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			return code, exit.Usage("check the spelling; the path starts at the current directory", "there is no file %s", terminal.Visible(file))
		}
		if err != nil {
			return code, err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return code, exit.Usage("sandboxmcp validate "+filepath.Join(file, "main.py"), "%s is a directory: name a script in it",
				terminal.Visible(file))
		}
		from, code.Name = f, filepath.Base(file)
	}
	var err error
	code.Source, err = run.ReadCode(from, file)
	return code, err
}

// writeBack replaces a file, keeping its mode, if its content is still was.
func writeBack(file string, was, now []byte) error {
	path, err := hostfs.Resolve(file)
	if err != nil {
		return command.PathError("", "", err)
	}
	dir, base, err := hostfs.OpenParent(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	f, info, err := statefile.OpenIn(dir.Lstat, dir.OpenFile, base)
	if err != nil {
		return err
	}
	defer f.Close()
	if text, err := io.ReadAll(io.LimitReader(f, int64(len(was))+1)); err != nil || string(text) != string(was) {
		return exit.Fail("sandboxmcp validate "+file+" --write", "%s has changed meanwhile: it was not written to", terminal.Visible(file))
	}
	if err := hostfs.Replace(dir, base, info.Mode().Perm(), func(f *os.File) error {
		_, err := f.Write(now)
		return cmp.Or(err, f.Chmod(info.Mode().Perm()), f.Sync())
	}); err != nil {
		return exit.Fail("sandboxmcp validate "+file+" --json has the code in \"fixed\"", "write to %s: %v", terminal.Visible(file), err)
	}
	return nil
}

// String formats the findings for people: places first, as in editors and compilers.
func (l validation) String() string {
	var b strings.Builder
	at := func(line, column int, text, snippet string) {
		place := l.File
		if line > 0 {
			place = fmt.Sprintf("%s:%d:%d", l.File, line, column)
		}
		fmt.Fprintf(&b, "%s: %s\n", terminal.Visible(place), terminal.Visible(text))
		for line := range strings.Lines(snippet) {
			fmt.Fprintf(&b, "    %s\n", terminal.Visible(strings.TrimRight(line, "\n")))
		}
	}
	for _, x := range l.Problems {
		at(x.Line, x.Column, "error: "+x.Text, x.Snippet)
	}
	for _, x := range l.Missing {
		at(x.Line, x.Column, x.Name+" is used and bound nowhere: "+x.Statement, "")
	}
	for _, x := range l.Dangers {
		at(x.Line, x.Column, fmt.Sprintf("%s: %s (%s)", x.Severity, x.Reason, x.Rule), x.Snippet)
	}
	for _, n := range l.Notes {
		at(0, 0, "note: "+n, "")
	}
	if l.Fixed != "" {
		b.WriteString(terminal.VisibleLines(l.Diff))
	}
	b.WriteString(terminal.Visible(l.verdict()) + "\n")
	return b.String()
}

func (l validation) verdict() string {
	switch {
	case !l.Valid:
		return fmt.Sprintf("%s is not valid: %s", l.File, terminal.Count(len(l.Problems), "problem"))
	case !l.Judged:
		return fmt.Sprintf("%s was not judged: only running it shows whether it is valid %s", l.File, l.Language)
	case l.Written:
		return "wrote " + l.File + " with its missing imports"
	case l.Fixed != "" && l.File != "-":
		return fmt.Sprintf("%s is valid %s, and lacks imports: sandboxmcp validate %s --write adds them", l.File, l.Language, l.File)
	}
	return fmt.Sprintf("%s is valid %s", l.File, l.Language)
}
