package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/validate"
)

// Install asks for packages. With a session they are that session's; else the namespace's. Outcome.Packages lists what was installed; a
// package manager that fails is an Outcome whose Ended is "exit", with its output.
type Install struct {
	Namespace, Session, Language string
	Backend                      string   // whose interpreter they are for; "" is the session's, or the default
	Packages                     []string // as the package manager takes them: "requests==2.32.3", "left-pad@1.3.0"
	Timeout                      time.Duration
	Progress                     func(line string) // may be nil; is given lines as the package manager writes them

	// Client, Typed and Ask are those of a Request: who asks, whether a person has typed it and so approved it, and
	// what shows a person the question whether these packages may be installed.
	Client string
	Typed  bool
	Ask    func(context.Context, *approval.Pending)
}

func (q Install) subject() subject {
	return subject{name: "install", namespace: q.Namespace, session: q.Session, language: q.Language}
}

// plan checks an installation, and has a person approve it where one must.
func (q Install) plan(ctx context.Context, r *run) (action[None], error) {
	o, err := r.checkInstall(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := r.permitInstall(ctx, q, o); err != nil {
		return nil, err
	}
	if s, err := r.p.sessions.Get(q.Session); err == nil { // what was sent before it comes first
		leave, err := s.Wait(ctx)
		if err != nil {
			return nil, sessionError(StageQueue, err)
		}
		r.releases = append(r.releases, leave)
	}
	return &task[None]{run: r, stage: StageBackend, slots: o.Limits, do: func(ctx context.Context) (None, error) { return None{}, r.install(ctx, o) }}, nil
}

// install carries out an installation.
func (r *run) install(ctx context.Context, o packages.Order) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limits.Wall+finishTimeout, fmt.Errorf("the installation timed out after %s s", formatNumber(o.Limits.Wall.Seconds())))
	defer cancel()
	receipt, err := r.p.cfg.Packages.Install(ctx, o)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	r.addReceipt(receipt)
	if r.res.Ended == backends.EndedOK {
		r.noteRun(event.PackageInstalled, facts{"packages_installed": r.res.Packages[:min(len(r.res.Packages), maxPackages)], "count": len(r.res.Packages), "layer_sha256": receipt.Layer, "cached": receipt.Cached})
	}
	return nil
}

// checkInstall validates an installation, and decides what contains and limits the package manager.
func (r *run) checkInstall(ctx context.Context, q Install) (o packages.Order, err error) {
	p := r.p
	if p.cfg.Packages == nil {
		return o, refuse(StageValidate, "packages can't be installed here: there is no directory to keep them in", "use sandboxmcp serve")
	}
	if err := checkRequest(Request{ID: r.res.ID, Namespace: r.res.Namespace}); err != nil {
		return o, err
	}
	var into session.Info // the zero value is the namespace's layer
	if q.Session != "" {
		s, err := p.own(q.Namespace, q.Session)
		if err != nil {
			return o, err
		}
		into = s.Info()
		r.leases = s.Leases() // a caller may name one of its secrets
	}
	if own := p.OtherLanguage(cmp.Or(q.Language, into.Language), ""); own != "" {
		return o, refuse(StageValidate, "packages of "+own+" can't be installed", "show those of the machine or the image")
	}
	if q.Language, err = validate.Language(cmp.Or(q.Language, into.Language)); err != nil {
		return o, refuse(StageValidate, err.Error(), "name the language that the packages are for")
	}
	if q.Session != "" && into.Language != q.Language {
		return o, refuse(StageValidate, fmt.Sprintf("the session runs %s, and the packages are for %s", into.Language, q.Language), "")
	}
	if q.Session != "" && q.Backend != "" && q.Backend != into.Backend {
		return o, refuse(StageValidate, fmt.Sprintf("the session is one of %s, not of %s", into.Backend, q.Backend), "leave the backend out")
	}
	if err := packages.Check(q.Language, q.Packages); err != nil {
		return o, broke(StageValidate, err)
	}
	o = packages.Order{ID: r.res.ID, Namespace: r.res.Namespace, Session: q.Session, Language: q.Language, Packages: q.Packages, Progress: q.Progress}
	e := p.cfg.Egress
	record := outbound.Bounded(p.recorder(r.res.ID, r.res.Namespace, r.clean))
	o.Egress = egress.Config{Decided: record, Dialer: e.Dialer, Idle: e.Idle, Connections: e.Connections, Budget: p.budget}
	c, err := p.containmentOf(cmp.Or(into.Backend, q.Backend), into.Profile, nil)
	if err != nil {
		return o, err
	}
	o.Backend, o.Profile, o.Require = c.backend, c.base, c.requires
	if err := c.backend.CanMount(ctx); err != nil {
		return o, noPackages(err, q.Language)
	}
	caps := p.cfg.Caps
	if q.Timeout < 0 || q.Timeout > caps.Wall {
		return o, refuse(StageValidate, fmt.Sprintf("a timeout of %s seconds is not allowed", formatNumber(q.Timeout.Seconds())),
			fmt.Sprintf("ask for at most %s seconds", formatNumber(caps.Wall.Seconds())))
	}
	// A package manager needs more than programs do.
	o.Limits = backends.Limits{RAM: 2 << 30, Wall: cmp.Or(q.Timeout, min(caps.Wall, 10*time.Minute)), CPU: 2, Processes: 64, Disk: 4 << 30}.AtMost(caps.Limits)
	r.res.Language, r.res.Backend, r.res.Profile = q.Language, o.Backend.Name(), c.profile
	r.facts = facts{"language": q.Language, "packages": q.Packages, "backend": o.Backend.Name(), "profile": c.profile, "require": o.Require}
	r.facts.add("session", q.Session, len(q.Session))
	r.asker(q.Client)
	return o, nil
}

// addReceipt puts what came of an installation into the result.
func (r *run) addReceipt(x packages.Receipt) {
	r.res.addOutcome(x.Result)
	if len(r.res.Layers) == 0 {
		r.res.Layers = append(r.res.Layers, x.Result.Contained.Layers...)
	}
	if x.ExitCode != 0 && r.res.Ended == backends.EndedOK {
		r.res.Ended, r.res.ExitCode = backends.EndedExit, x.ExitCode
	}
	r.res.Stdout, r.res.Stderr = x.Stdout, x.Stderr
	r.res.Packages = x.Packages
	r.decided(x.Hosts)
}

// noPackages is the error of an installation where no sandbox could be shown what is installed.
func noPackages(err error, language string) error {
	if r, is := errors.AsType[*backends.Refusal](err); is {
		return refuse(StageValidate, "packages can't be installed here: "+r.Reason, "use an image that has them: ", remedy.Setting.With("images."+language))
	}
	return broke(StageBackend, err)
}

// packagesOf returns what a run in a language, or the new session id, is shown of a namespace's packages: nothing where no directory of this
// machine can be shown. Install refuses to add any there.
func (p *Pipeline) packagesOf(ctx context.Context, c containment, namespace, language, id string) (packages.View, error) {
	// Without a root of its own, a sandbox can't be shown a directory at another place.
	if p.cfg.Packages == nil || c.base == "landlock" || !slices.Contains([]string{validate.Python, validate.Node}, language) {
		return packages.View{Release: func() {}}, nil
	}
	if err := c.backend.CanMount(ctx); err != nil {
		if errors.As(err, new(*backends.Refusal)) {
			err = nil
		}
		return packages.View{Release: func() {}}, err
	}
	if id != "" {
		return p.cfg.Packages.OpenSession(ctx, c.backend, namespace, id, language)
	}
	return p.cfg.Packages.View(ctx, c.backend, namespace, "", language)
}
