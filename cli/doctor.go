package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
)

func (p *program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "say what this machine can contain programs with, and what is missing",
		UsageText: "sandboxmcp doctor [--backend NAME] [--json]",
		Description: `Prints a line for each layer of containment, each interpreter, each container engine and its images. The
exit code is 1 if the default profile can't run here.

Example: sandboxmcp doctor`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "backend", Usage: "`NAME` of what is to contain programs: process, podman or docker", DefaultText: configured},
			jsonFlag(),
		},
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
	Kind   string `json:"kind"` // "layer", "runtime", "engine", "image", "browser", "state"
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
	cfg, err := load(c, "backend")
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
	engines := make(chan []surveyed, 1)
	go func() { engines <- survey(ctx, cfg, engineNames()) }()
	err := d.probe(ctx, cfg)
	for _, s := range <-engines {
		d.Found = append(d.Found, s.findings()...)
	}
	d.add(browserFinding(ctx, cfg))
	d.add(stateFinding(ctx, cfg))
	return d, err
}

// probePatience is how long a backend may take to find out what it offers.
const probePatience = 30 * time.Second

// probe has the backend try what a run of the default profile is made of.
func (d *diagnosis) probe(ctx context.Context, cfg config.Config) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	profile, required := cfg.Profiles[cfg.Profile], requires(cfg, cfg.Profile)
	backend := backendOf(cfg.Backend, cfg, purpose{delegate: slices.Contains(required, backends.LayerCgroup)})
	defer backend.Close()
	promised := backend.Promises(profile.Layers)
	if promised == nil {
		d.unusable(fmt.Sprintf("the backend %s does not have the profile %s", cfg.Backend, profile.Layers))
		return nil
	}
	if required == nil {
		required = promised
	}
	probe, err := backend.Probe(ctx, backends.Spec{Profile: profile.Layers, Require: required})
	if err != nil && cfg.Backend != "process" { // its engine does not answer: a finding says more
		reason, _ := because(err)
		d.unusable(cfg.Backend + ": " + reason)
		return nil
	}
	if err != nil {
		return err
	}
	if !probe.Usable {
		d.unusable(probe.Why)
	}
	for _, l := range probe.Layers {
		d.add(layerFinding(l, required))
	}
	for _, r := range probe.Runtimes {
		d.add(finding{Kind: "runtime", Name: r.Name, OK: r.Path != "", Detail: runtimeDetail(r)})
	}
	return nil
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
	verdict := fmt.Sprintf("the profile %s can run%s", d.Profile, in(d.Backend))
	if !d.Usable {
		verdict = fmt.Sprintf("the profile %s can't run%s: %s", d.Profile, in(d.Backend), visible(d.Why))
	}
	_, err := fmt.Fprintln(p.stdout, "\n"+verdict)
	return err
}

// in says where programs run, if not as processes of this machine.
func in(backend string) string {
	if backend == "process" {
		return ""
	}
	return " in containers of " + backend
}
