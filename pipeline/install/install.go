// Package install has the effect that installs packages for a namespace or a session, asks a person for approval if
// required (approval), and lists installed packages (installed). Package pipeline/packages stores them.
package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// Request installs packages for the session, if set, or for the namespace. Outcome.Packages lists the installed
// packages; a failure of the package manager is an Outcome whose Ended is "exit", with its output.
type Request struct {
	Namespace, Session, Language string
	Backend                      string   // backend of their interpreter; "" is the session's, or the default
	Packages                     []string // in the syntax of the package manager: "requests==2.32.3", "left-pad@1.3.0"
	Timeout                      time.Duration
	Progress                     func(line string) // may be nil; called for each output line of the package manager

	// Client, Typed and Ask are as in run.Request: the caller's program, whether a person typed and so approved the
	// request, and a function that shows the question to a person.
	Client string
	Typed  bool
	Ask    func(context.Context, *approval.Pending)
}

func (q Request) Subject() pipeline.Subject {
	return pipeline.Subject{Name: "install", Namespace: q.Namespace, Session: q.Session, Language: q.Language}
}

// Plan checks the request, and asks a person for approval if required.
func (q Request) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[pipeline.NoAnswer], error) {
	o, err := checkInstall(ctx, r, q)
	if err != nil {
		return nil, err
	}
	if err := permitInstall(ctx, r, q, o); err != nil {
		return nil, err
	}
	if s, err := session.FindSession(r.Pipeline, q.Namespace, q.Session); err == nil { // earlier requests to the session come first
		leave, err := s.Wait(ctx)
		if err != nil {
			return nil, session.ErrorOf(pipeline.StageQueue, err)
		}
		r.Releases = append(r.Releases, leave)
	}
	return &pipeline.Task[pipeline.NoAnswer]{Run: r, Stage: pipeline.StageBackend, Slots: o.Limits,
		Do: func(ctx context.Context) (pipeline.NoAnswer, error) { return pipeline.NoAnswer{}, install(ctx, r, o) }}, nil
}

// install performs an installation.
func install(ctx context.Context, r *pipeline.Run, o packages.Order) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limits.Wall+pipeline.FinishTimeout, fmt.Errorf("the installation timed out after %s s",
		pipeline.FormatNumber(o.Limits.Wall.Seconds())))
	defer cancel()
	receipt, err := r.Pipeline.Config.Packages.Install(ctx, o)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	addReceipt(r, receipt)
	if r.Outcome.Ended == backends.EndedOK {
		r.AddRunRow(event.PackageInstalled, pipeline.Facts{
			"packages_installed": r.Outcome.Packages[:min(len(r.Outcome.Packages), pipeline.MaxPackages)], "count": len(r.Outcome.Packages),
			"layer_sha256": receipt.Layer, "cached": receipt.Cached})
	}
	return nil
}

// checkInstall validates a request, and decides the containment and limits of the package manager.
func checkInstall(ctx context.Context, r *pipeline.Run, q Request) (o packages.Order, err error) {
	p := r.Pipeline
	if p.Config.Packages == nil {
		return o, pipeline.Refuse(pipeline.StageValidate, "packages can't be installed here: there is no directory for them",
			"use sandboxmcp serve")
	}
	if err := pipeline.CheckIDAndNamespace(r.Outcome.ID, r.Outcome.Namespace); err != nil {
		return o, err
	}
	var into session.Info // the zero value is the namespace's layer
	if q.Session != "" {
		s, err := session.FindSession(p, q.Namespace, q.Session)
		if err != nil {
			return o, err
		}
		into = s.Info()
		r.Leases = s.Leases() // a caller may name one of its secrets
	}
	if own := containment.OtherLanguage(p, cmp.Or(q.Language, into.Language), ""); own != "" {
		return o, pipeline.Refuse(pipeline.StageValidate, "packages of "+own+" can't be installed", "use those of the machine or the image")
	}
	if q.Language, err = validate.Language(cmp.Or(q.Language, into.Language)); err != nil {
		return o, pipeline.Refuse(pipeline.StageValidate, err.Error(), "name the language of the packages")
	}
	if q.Session != "" && into.Language != q.Language {
		return o, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the session runs %s, but the packages are for %s", into.Language,
			q.Language), "")
	}
	if q.Session != "" && q.Backend != "" && q.Backend != into.Backend {
		return o, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the session runs on the backend %s, not %s", into.Backend, q.Backend),
			"leave the backend out")
	}
	if err := packages.Check(q.Language, q.Packages); err != nil {
		return o, pipeline.WrapError(pipeline.StageValidate, err)
	}
	o = packages.Order{ID: r.Outcome.ID, Namespace: r.Outcome.Namespace, Session: q.Session, Language: q.Language, Packages: q.Packages,
		Progress: q.Progress}
	e := p.Config.Egress
	record := outbound.LimitRows(containment.DecisionRecorder(p, r.Outcome.ID, r.Outcome.Namespace, r.Clean))
	o.Egress = egress.Config{Decided: record, Dialer: e.Dialer, Idle: e.Idle, Connections: e.Connections, Budget: p.Budget}
	c, err := containment.Choose(p, cmp.Or(into.Backend, q.Backend), into.Profile, nil)
	if err != nil {
		return o, err
	}
	o.Backend, o.Profile, o.Require = c.Backend, c.Base, c.Requires
	if err := c.Backend.CanMount(ctx); err != nil {
		return o, noPackages(err, q.Language)
	}
	caps := p.Config.Caps
	if q.Timeout < 0 || q.Timeout > caps.Wall {
		return o, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("a timeout of %s seconds is not allowed",
			pipeline.FormatNumber(q.Timeout.Seconds())),
			fmt.Sprintf("use at most %s seconds", pipeline.FormatNumber(caps.Wall.Seconds())))
	}
	// A package manager needs more than programs do.
	o.Limits = backends.Limits{RAM: 2 << 30, Wall: cmp.Or(q.Timeout, min(caps.Wall, 10*time.Minute)), CPU: 2, Processes: 64,
		Disk: 4 << 30}.CappedBy(caps.Limits)
	r.Outcome.Language, r.Outcome.Backend, r.Outcome.Profile = q.Language, o.Backend.Name(), c.Profile
	r.Facts = pipeline.Facts{"language": q.Language, "packages": q.Packages, "backend": o.Backend.Name(), "profile": c.Profile,
		"require": o.Require}
	r.Facts.AddIf("session", q.Session, len(q.Session))
	r.AddCallerFacts(q.Client)
	return o, nil
}

// addReceipt adds the receipt of an installation to the result.
func addReceipt(r *pipeline.Run, x packages.Receipt) {
	r.Outcome.AddProgramResult(x.Result)
	if len(r.Outcome.Layers) == 0 {
		r.Outcome.Layers = append(r.Outcome.Layers, x.Result.Contained.Layers...)
	}
	if x.ExitCode != 0 && r.Outcome.Ended == backends.EndedOK {
		r.Outcome.Ended, r.Outcome.ExitCode = backends.EndedExit, x.ExitCode
	}
	r.Outcome.Stdout, r.Outcome.Stderr = x.Stdout, x.Stderr
	r.Outcome.Packages = x.Packages
	containment.AddDecisions(r, x.Hosts)
}

// noPackages returns the error of an installation that no sandbox could mount.
func noPackages(err error, language string) error {
	if r, is := errors.AsType[*backends.Refusal](err); is {
		return pipeline.Refuse(pipeline.StageValidate, "packages can't be installed here: "+r.Reason, "use an image with these packages: ",
			remedy.Setting.With("images."+language))
	}
	return pipeline.WrapError(pipeline.StageBackend, err)
}
