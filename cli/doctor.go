package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
)

func (p *program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "say what this machine can contain programs with, and what is missing",
		UsageText: "sandboxmcp doctor [--json]",
		Description: `Prints a line for each layer of containment, each interpreter and each container engine. The exit
code is 1 if the default profile can't run here.

Example: sandboxmcp doctor`,
		Flags:  []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print it as JSON"}},
		Action: p.doctor,
	}
}

// diagnosis is what doctor finds.
type diagnosis struct {
	Usable  bool      `json:"usable"` // the default profile can run
	Why     string    `json:"why,omitempty"`
	Backend string    `json:"backend"`
	Profile string    `json:"profile"`
	Found   []finding `json:"findings"`
}

// finding is one thing that was looked at.
type finding struct {
	Kind   string `json:"kind"` // "layer", "runtime", "engine", "state"
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Needed bool   `json:"needed"` // the default profile can't run without it
	Detail string `json:"detail,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

func (p *program) doctor(c *cli.Context) error {
	if err := noWords(c); err != nil {
		return err
	}
	cfg, err := load(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, time.Minute)
	defer cancel()
	d, err := examine(ctx, cfg)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		err = writeJSON(p.stdout, d)
	} else {
		err = p.printDiagnosis(d)
	}
	if err == nil && !d.Usable {
		return silent(exitFailed)
	}
	return err
}

func examine(ctx context.Context, cfg config.Config) (diagnosis, error) {
	d := diagnosis{Backend: cfg.Backend, Profile: cfg.Profile, Usable: true}
	if cfg.Backend == "process" {
		if err := d.probe(ctx, cfg); err != nil {
			return d, err
		}
	} else {
		d.unusable(fmt.Sprintf("there is no backend called %q yet, only process", cfg.Backend))
	}
	d.Found = append(d.Found, engines(ctx)...)
	d.add(stateFinding(ctx, cfg))
	return d, nil
}

// probe has the backend try what a run of the default profile is made of.
func (d *diagnosis) probe(ctx context.Context, cfg config.Config) error {
	profile := cfg.Profiles[cfg.Profile]
	backend := process.New(process.Config{StateDir: cfg.StateDir, Delegate: slices.Contains(profile.Require, backends.LayerCgroup)})
	defer backend.Close()
	probe, err := backend.Probe(ctx, backends.Spec{Profile: profile.Layers, Require: profile.Require})
	if err != nil {
		return err
	}
	if !probe.Usable {
		d.unusable(probe.Why)
	}
	for _, l := range probe.Layers {
		d.add(layerFinding(l, profile.Require))
	}
	for _, r := range probe.Runtimes {
		d.add(finding{Kind: "runtime", Name: r.Name, OK: r.Path != "", Detail: runtimeDetail(r)})
	}
	return nil
}

// unusable says that the default profile can't run; the first reason counts.
func (d *diagnosis) unusable(why string) {
	d.Usable = false
	if d.Why == "" {
		d.Why = why
	}
}

// add takes a finding down. One that is needed and not there makes the host unusable.
func (d *diagnosis) add(f finding) {
	d.Found = append(d.Found, f)
	if f.Needed && !f.OK {
		d.unusable(f.Kind + " " + f.Name + ": " + f.Detail)
	}
}

func layerFinding(l backends.LayerProbe, required []string) finding {
	f := finding{Kind: "layer", Name: l.Name, OK: l.InForce, Detail: l.Detail, Remedy: l.Remedy}
	for _, name := range required {
		f.Needed = f.Needed || name == l.Name
	}
	return f
}

func runtimeDetail(r backends.Runtime) string {
	if r.Path == "" {
		return r.Why
	}
	detail := r.Path
	if r.Version != "" {
		detail += ", version " + r.Version
	}
	if r.Why != "" {
		detail += ", " + r.Why
	}
	return detail
}

func (p *program) printDiagnosis(d diagnosis) error {
	if !d.Usable {
		fmt.Fprintf(p.stdout, "unusable: %s\n\n", visible(d.Why)) // an error of stdout shows below
	}
	for _, f := range d.Found {
		state := "yes"
		switch {
		case !f.OK && f.Needed:
			state = "MISSING"
		case !f.OK:
			state = "no"
		}
		if _, err := fmt.Fprintf(p.stdout, "%-8s %-9s %-8s %s\n", f.Kind, visible(f.Name), state, visible(f.Detail)); err != nil {
			return err
		}
		if f.Remedy != "" {
			fmt.Fprintf(p.stdout, "%27s %s\n", "try:", visible(f.Remedy))
		}
	}
	verdict := fmt.Sprintf("the profile %s can run", d.Profile)
	if !d.Usable {
		verdict = fmt.Sprintf("the profile %s can't run: %s", d.Profile, visible(d.Why))
	}
	_, err := fmt.Fprintln(p.stdout, "\n"+verdict)
	return err
}
