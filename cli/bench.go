package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/bench"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Default number of runs of each method, one at a time.
const (
	quickRuns = 15
	fullRuns  = 100
	maxRuns   = 100_000
)

func (p *program) benchCommand() *cli.Command {
	return &cli.Command{
		Name:      "bench",
		Usage:     "measure the cost of isolation on this machine, and of other installed tools",
		UsageText: "sandboxmcp bench [--quick] [--json] [--language NAME ...] [--runs N]",
		Description: `Runs a small program bare, under bubblewrap, runsc, Docker and Podman if they are installed and have an image
(none is pulled), and in sandboxmcp's sandboxes and containers, alternating. Compare the ratios to the bare command and
to the engine's own run, not the milliseconds. The measured servers have the default settings and a temporary state
directory. It takes two to four minutes, --quick less than one; the machine should be idle.

Example: sandboxmcp bench --quick`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "quick", Usage: fmt.Sprintf("take less time: %d runs of each instead of %d, and shorter load", quickRuns, fullRuns)},
			&cli.IntFlag{Name: "runs", Usage: "run each program `N` times, one at a time", DefaultText: fmt.Sprint(fullRuns)},
			&cli.StringSliceFlag{Name: "language", Usage: "measure only `NAME`: " + strings.Join(bench.Languages(), ", ") +
				" (may be given more than once)"},
			command.JSONFlag(),
		},
		Action: command.NoWords(p.bench),
	}
}

func (p *program) bench(c *cli.Context) error {
	what, err := p.benchConfig(c)
	if err != nil {
		return err
	}
	ctx, cancel := command.Interruptible(c.Context)
	defer cancel(nil)
	r, err := bench.Run(ctx, what)
	if what.Progress != nil {
		what.Progress("")
	}
	if signal, ok := errors.AsType[command.Interruption](err); ok {
		err = &exit.Error{Code: exit.Signalled + int(signal.Signal), Text: "ended by " + signal.Error() +
			": nothing was measured, and nothing is left"}
	}
	if err != nil {
		return err
	}
	return p.Print(c, r, func(w io.Writer) error {
		var b strings.Builder
		if err := r.Table(&b); err != nil {
			return err
		}
		_, err := io.WriteString(w, terminal.VisibleLines(b.String())) // error texts of other programs are in it
		return err
	})
}

func (p *program) benchConfig(c *cli.Context) (bench.Config, error) {
	const hint = "sandboxmcp bench --help"
	cfg, err := wiring.Load(c)
	if err != nil {
		return bench.Config{}, err
	}
	runs := fullRuns
	if c.Bool("quick") {
		runs = quickRuns
	}
	if c.IsSet("runs") {
		runs = c.Int("runs")
	}
	if runs < 1 || runs > maxRuns {
		return bench.Config{}, exit.Usage(hint, "--runs is 1 to %d, not %d", maxRuns, runs)
	}
	var languages []string
	for _, name := range bench.Languages() {
		if slices.Contains(c.StringSlice("language"), name) || !c.IsSet("language") {
			languages = append(languages, name)
		}
	}
	for _, name := range c.StringSlice("language") {
		if !slices.Contains(languages, name) {
			return bench.Config{}, exit.Usage(hint, "--language is one of %s, not %q", strings.Join(bench.Languages(), ", "), name)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return bench.Config{}, fmt.Errorf("find this program to start it once more: %w", err)
	}
	environ := vault.WithoutSecrets(os.Environ())
	return bench.Config{
		Program: self, Version: version.Current().Version, Environ: environ, Image: cfg.Images.ForLanguage,
		Languages: languages, Runs: runs, Quick: c.Bool("quick"), Progress: p.benchProgress(),
	}, nil
}

// benchProgress returns a function that shows progress on one line of a terminal, or does nothing without one.
func (p *program) benchProgress() func(string) {
	if !terminal.IsTerminal(p.Err) {
		return nil
	}
	return func(text string) {
		if text != "" {
			text = terminal.Cut(text, max(terminal.Width(p.Err)-1, 40))
		}
		fmt.Fprintf(p.Err, "\r\x1b[K%s", text)
	}
}
