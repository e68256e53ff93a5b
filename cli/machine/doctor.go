// Package machine implements the commands about this machine: doctor, runtimes, and images of container engines.
package machine

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kubernetes"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/egress/web/browser"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

func (p commands) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "check which isolation layers this machine supports",
		UsageText: "sandboxmcp doctor [--backend NAME] [--json]",
		Description: `Prints a line for each isolation layer, interpreter, and container engine with its images, as soon as it is
known, and a command for each missing part. It waits 20 seconds for an engine and 30 for the backend.
The exit code is 1 if the default profile can't run here.

Example: sandboxmcp doctor`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "backend", Usage: "isolation backend `NAME`: process, podman, docker or kubernetes",
				DefaultText: command.SeeConfig},
			command.JSONFlag(),
		},
		Action: command.NoWords(p.doctor),
	}
}

// diagnosis is the output of doctor.
type diagnosis struct {
	Usable  bool      `json:"usable"` // the default profile can run
	Why     string    `json:"why,omitempty"`
	Backend string    `json:"backend"`
	Profile string    `json:"profile"`
	Found   []finding `json:"findings"`
}

// finding is a line of the output.
type finding = control.Finding

func (p commands) doctor(c *cli.Context) error {
	cfg, err := wiring.Load(c, "backend")
	if err != nil {
		return err
	}
	w := p.Out
	if c.Bool("json") {
		w = io.Discard // JSON is printed as a whole
	}
	d, err := examine(c.Context, cfg, w)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = terminal.WriteJSON(p.Out, d)
	}
	return exit.UnlessOK(d.Usable, err)
}

// Timeouts of checks, all of which run at the same time. An engine's service may have to start first, and a browser
// reads many files: on a slow machine they still work.
const (
	probeTimeout = 30 * time.Second
	checkTimeout = 20 * time.Second
)

// check is a part of the examination, with its own deadline.
type check struct {
	kind, name string
	timeout    time.Duration
	find       func(ctx context.Context) (diagnosis, error)
}

// examine does all checks at the same time and writes each finding as soon as it is known. The diagnosis has them in a
// fixed order.
func examine(ctx context.Context, cfg config.Config, w io.Writer) (diagnosis, error) {
	one := func(f finding) (d diagnosis, err error) {
		d.Usable = true
		d.addFinding(f)
		return d, nil
	}
	checks := []check{{"backend", cfg.Backend, probeTimeout, func(ctx context.Context) (diagnosis, error) { return probeDefault(ctx, cfg) }}}
	engines := wiring.EngineNames()
	if cfg.Kubernetes.Image != "" { // otherwise no cluster is meant, even if there is a kubeconfig
		engines = append(engines, kubernetes.Name)
	}
	for _, name := range engines {
		checks = append(checks, check{"engine", name, checkTimeout, func(ctx context.Context) (diagnosis, error) {
			return diagnosis{Usable: true, Found: surveyEngine(ctx, cfg, name).findings()}, nil
		}})
	}
	checks = append(checks, check{"browser", "chromium", checkTimeout, func(ctx context.Context) (diagnosis, error) {
		return one(browserFinding(ctx, cfg))
	}},
		check{"state", "audit", checkTimeout, func(ctx context.Context) (diagnosis, error) { return one(stateFinding(ctx, cfg)) }})

	type answer struct {
		i   int
		d   diagnosis
		err error
	}
	answers := make(chan answer, len(checks))
	for i, l := range checks {
		go func() {
			d, err := l.runWithTimeout(ctx)
			answers <- answer{i, d, err}
		}()
	}
	d, found := diagnosis{Backend: cfg.Backend, Profile: cfg.Profile, Usable: true}, make([][]finding, len(checks))
	for range checks {
		a := <-answers
		if a.err != nil {
			return d, a.err
		}
		found[a.i] = a.d.Found
		if !a.d.Usable && d.Usable {
			d.markUnusable(a.d.Why)
			fmt.Fprintf(w, "unusable: %s\n\n", terminal.Visible(d.Why)) // errors of stdout show below
		}
		for _, f := range a.d.Found {
			if err := writeFinding(w, f); err != nil {
				return d, err
			}
		}
	}
	d.Found = slices.Concat(found...)
	return d, d.writeVerdict(w)
}

// runWithTimeout does the check, and reports a timeout even if the check ignores its context.
func (l check) runWithTimeout(ctx context.Context) (diagnosis, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	type answer struct {
		diagnosis
		err error
	}
	found := make(chan answer, 1)
	go func() {
		defer cancel()
		d, err := l.find(ctx)
		found <- answer{d, err}
	}()
	select {
	case a := <-found:
		return a.diagnosis, a.err
	case <-time.After(l.timeout + time.Second): // the second is for checks that heed the context and report more
		d := diagnosis{Usable: true}
		d.addFinding(finding{Kind: l.kind, Name: l.name, Needed: l.kind == "backend" || l.kind == "state",
			Detail: fmt.Sprintf("it has not answered within %v", l.timeout)})
		return d, nil
	}
}

// probeDefault returns the layers and limits that the default backend offers to a run of the default profile.
func probeDefault(ctx context.Context, cfg config.Config) (d diagnosis, err error) {
	d.Usable = true
	profile, required := cfg.Profiles[cfg.Profile], wiring.Requires(cfg, cfg.Profile)
	backend := wiring.Backend(cfg.Backend, cfg, wiring.Purpose{Delegate: slices.Contains(required, backends.LayerCgroup)})
	defer backend.Close()
	promised := backend.Promises(profile.Layers)
	if promised == nil {
		d.markUnusable(fmt.Sprintf("the backend %s does not have the profile %s", cfg.Backend, profile.Layers))
		return d, nil
	}
	if required == nil {
		required = promised
	}
	probe, err := backend.Probe(ctx, backends.Spec{Profile: profile.Layers, Require: required})
	if err != nil && cfg.Backend != "process" { // its engine does not answer: a finding has the details
		reason, _ := exit.Reason(err)
		d.markUnusable(cfg.Backend + ": " + reason)
		return d, nil
	}
	if err != nil {
		return d, err
	}
	if !probe.Usable {
		d.markUnusable(probe.Why.String())
	}
	for _, l := range probe.Layers {
		d.addFinding(finding{Kind: "layer", Name: l.Name, OK: l.InForce, Needed: slices.Contains(required, l.Name), Detail: l.Detail,
			Remedy: l.Remedy.String()})
	}
	for _, r := range append(probe.Runtimes, containment.ProbeRuntimes(wiring.Runtimes(cfg), cfg.Backend)...) {
		d.addFinding(finding{Kind: "runtime", Name: r.Name, OK: r.Path != "", Detail: runtimeDetail(r)})
	}
	return d, nil
}

// stateFinding opens the audit log, as every run does.
func stateFinding(ctx context.Context, cfg config.Config) finding {
	f := finding{Kind: "state", Name: "audit", Needed: true, Detail: cfg.SQLitePath}
	log, err := audit.Open(ctx, cfg.SQLitePath)
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	defer log.Close()
	f.OK = true
	return f
}

// markUnusable records why the default profile can't run; the first reason counts.
func (d *diagnosis) markUnusable(why string) {
	d.Usable = false
	if d.Why == "" {
		d.Why = why
	}
}

// addFinding records a finding. A failed one that is required makes the host unusable.
func (d *diagnosis) addFinding(f finding) {
	d.Found = append(d.Found, f)
	if f.Needed && !f.OK {
		d.markUnusable(f.Kind + " " + f.Name + ": " + f.Detail)
	}
}

func runtimeDetail(r backends.Runtime) string {
	if r.Path == "" {
		return r.Why.String()
	}
	detail := r.Path
	if r.Version != "" {
		detail += ", version " + r.Version
	}
	if !r.Why.IsZero() {
		detail += ", " + r.Why.String()
	}
	return detail
}

func writeFinding(w io.Writer, f finding) error {
	state := "yes"
	switch {
	case !f.OK && f.Needed:
		state = "MISSING"
	case !f.OK:
		state = "no"
	}
	line := fmt.Sprintf("%-8s %-9s %-8s %s\n", f.Kind, terminal.Visible(f.Name), state, terminal.Visible(f.Detail))
	if f.Remedy != "" {
		line += fmt.Sprintf("%27s %s\n", "try:", terminal.Visible(f.Remedy))
	}
	_, err := io.WriteString(w, line)
	return err
}

// writeVerdict prints whether the default profile can run, and returns an error if it can't.
func (d diagnosis) writeVerdict(w io.Writer) error {
	verdict := fmt.Sprintf("the profile %s can run%s", d.Profile, backendPlace(d.Backend))
	if !d.Usable {
		verdict = fmt.Sprintf("the profile %s can't run%s: %s", d.Profile, backendPlace(d.Backend), terminal.Visible(d.Why))
	}
	_, err := fmt.Fprintln(w, "\n"+verdict)
	return err
}

// backendPlace describes the backend, unless it is the process backend.
func backendPlace(backend string) string {
	if backend == "process" {
		return ""
	}
	return " in containers of " + backend
}

// Commands returns the commands of this package.
func Commands(s *command.Streams) []*cli.Command {
	p := commands{s}
	return []*cli.Command{p.doctorCommand(), p.imageCommand(), p.runtimesCommand()}
}

// commands are the actions, on the streams of an invocation.
type commands struct{ *command.Streams }

// browserFinding checks the browser that browser_fetch would start.
func browserFinding(ctx context.Context, cfg config.Config) finding {
	f := finding{Kind: "browser", Name: "chromium"}
	found, err := browser.FindProgram(cfg.Web.Browser)
	if err != nil {
		f.Detail, f.Remedy = err.Error(), browser.Remedy().String()
		return f
	}
	f.OK, f.Name, f.Detail = true, filepath.Base(found.Path), found.Path
	if v := browserVersion(ctx, found.Path); v != "" {
		f.Detail += ", version " + v
	}
	if !cfg.Web.Enabled {
		f.Detail += ", not used: web.enabled is not set"
	}
	return f
}

// browserVersion returns the first word with a digit in the browser's version: "Chromium 156.0.8078.79 built on
// Debian".
func browserVersion(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	for _, word := range strings.Fields(string(out[:min(len(out), 300)])) {
		if word[0] >= '0' && word[0] <= '9' {
			return word
		}
	}
	return ""
}
