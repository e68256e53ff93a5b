package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/install"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
)

func (p *program) installCommand() *cli.Command {
	return &cli.Command{
		Name:      "install",
		Usage:     "install Python or Node packages for all later runs of a namespace",
		UsageText: "sandboxmcp install PACKAGE ... --language python|node [--namespace NS] [--backend NAME] [--timeout SECONDS] [--json]",
		Description: `PACKAGE is a requirement of pip or npm: requests==2.32.3, 'numpy>=2', left-pad@1.3.0. The package manager runs in a
sandbox that reaches only the configured registries; install scripts of packages do not run unless packages.scripts is
set. It needs no server; running servers mount the packages in later runs.

Unpacked packages are cached, up to 2 GB, for the same packages from the same registries, in any namespace, session or server. The
registries are asked each time, with the credentials in pip's or npm's configuration. A registry whose files are on another host needs
that host in this configuration, too: as a further index of pip (extra-index-url), or as the registry of an unused scope of npm
(@files:registry).

If the package manager fails, the exit code is 1 and nothing has changed.

Examples:
  sandboxmcp install requests==2.32.3 --language python
  sandboxmcp install left-pad@1.3.0 --language node --namespace team-a`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "language", Usage: "`LANGUAGE` of the packages: python or node"},
			command.NamespaceFlag(),
			&cli.StringFlag{Name: "session", Usage: "only for the session `ID`", Hidden: true}, // refused with a hint
			&cli.StringFlag{Name: "backend", Usage: "isolation backend `NAME`: process, podman, docker or kubernetes",
				DefaultText: command.SeeConfig},
			&cli.Float64Flag{Name: "timeout", Usage: "time limit in `SECONDS`", DefaultText: "as much as configured, at most ten minutes"},
			&cli.BoolFlag{Name: "quiet", Usage: "do not print the package manager's output"},
			command.JSONFlag(),
		},
		Action: p.install,
	}
}

// installed is the JSON output of install.
type installed struct {
	Run       string             `json:"run"` // id in the audit log
	Namespace string             `json:"namespace"`
	Language  string             `json:"language"`
	Ended     string             `json:"ended"`
	ExitCode  int                `json:"exit_code"` // of the package manager
	Packages  []packages.Package `json:"packages"`
	Stdout    string             `json:"stdout,omitempty"` // only on failure
	Stderr    string             `json:"stderr,omitempty"`
	Hints     []pipeline.Remedy  `json:"hints,omitempty"`
}

func (p *program) install(c *cli.Context) error {
	language := c.String("language")
	switch {
	case c.NArg() == 0:
		return exit.Usage("sandboxmcp install requests --language python", "install needs the name of a PACKAGE")
	case c.IsSet("session"):
		return exit.Fail("leave --session out to install for all later runs of the namespace",
			"a session's packages are installed by the server that has it: its agent calls install_package with session_id")
	case language == "":
		return exit.Usage("--language python, or --language node", "install needs --language")
	case c.IsSet("timeout") && c.Float64("timeout") <= 0:
		return exit.Usage("leave it out for the default", "--timeout must be more than 0")
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	q := install.Request{
		Namespace: c.String("namespace"), Language: language, Backend: c.String("backend"), Packages: c.Args().Slice(),
		Timeout: command.Seconds(c.Float64("timeout")),
		Typed:   true,
	}
	if terminal.IsTerminal(p.Err) && !c.Bool("quiet") && !c.Bool("json") {
		q.Progress = func(line string) { fmt.Fprintln(p.Err, terminal.Visible(line)) }
	}
	why := wiring.Purpose{Backend: q.Backend, Install: true, Progress: func(line string) { p.Messagef("%s", line) }}
	return wiring.WithParts(p.Streams, c, cfg, why, func(ctx context.Context, parts *wiring.Parts) error {
		_, res, err := pipeline.Do(ctx, parts.Pipeline, q)
		if err != nil {
			return exit.AsFailure(err)
		}
		return p.showInstalled(c, q, res)
	})
}

func (p *program) showInstalled(c *cli.Context, q install.Request, res pipeline.Outcome) error {
	done := installed{Run: res.ID, Namespace: q.Namespace, Language: res.Language, Ended: res.Ended, ExitCode: res.ExitCode,
		Packages: append([]packages.Package{}, res.Packages...)}
	failed := res.Ended != backends.EndedOK
	if failed {
		done.Stdout, done.Stderr, done.Hints = res.Stdout, res.Stderr, res.Hints
	}
	if !failed || c.Bool("json") {
		return exit.UnlessOK(!failed, p.Print(c, done, done.writeText))
	}
	_, _ = io.WriteString(p.Err, terminal.VisibleLines(strings.TrimSpace(res.Stdout+"\n"+res.Stderr)))
	var hints []string
	for _, h := range res.Hints {
		hints = append(hints, h.String())
	}
	return exit.Fail(strings.Join(hints, "; "), "nothing was installed: the package manager failed (%s, exit code %d)", res.Ended,
		res.ExitCode)
}

func (i installed) writeText(w io.Writer) error {
	t := terminal.NewTable(w, terminal.Columns("PACKAGE", "VERSION", "WHY", "HASH")...)
	for _, x := range i.Packages {
		why := "needed by another"
		if x.Requested {
			why = "asked for"
		}
		t.Row(x.Name, x.Version, why, x.Hash)
	}
	if err := t.Close(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "installed %s for %s in the namespace %s\n", terminal.Count(len(i.Packages), "package"),
		terminal.Visible(i.Language), terminal.Visible(i.Namespace))
	return err
}
