package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/validate"
	"github.com/sandboxmcp/sandboxmcp/validate/notebook"
)

// plan is what was decided about a request before anything happens for it: its code parses, and nothing in it is above a
// limit of policy. Nothing changes it later.
type plan struct {
	containment
	request  Request
	program  validate.Checked
	shows    string           // the language whose interpreter the sandbox shows
	unfenced []byte           // the request's code without its fence, if it had one
	session  *session.Session // that runs the code, or nil
	limits   Bounds
	tools    []kernel.Tool // that the code can call
	saves    *hostfs.Dir   // where the caller wants the artifacts, or nil
}

// containment is the backend of a sandbox, and the layers without which the sandbox is refused.
type containment struct {
	backend  backends.Backend
	profile  string   // as policy calls it
	base     string   // the backend's profile that it stands on
	requires []string // of the profile and of the request together
}

// validate is the first stage: what was sent is sound, and within what the operator allows.
func (r *run) validate(ctx context.Context, q Request) (c plan, err error) {
	defer r.time(&r.res.Timings.Validate)()
	if err := checkRequest(q); err != nil {
		return c, err
	}
	data, err := r.p.dataMounts(q.Data)
	if err != nil {
		return c, err
	}
	q.Mounts = slices.Concat(q.Mounts, data)
	if c.saves, err = r.findArtifacts(q.Artifacts); err != nil {
		return c, err
	}
	if err := r.p.overlap(q, c.saves); err != nil {
		return c, err
	}
	c.request = q
	language := ""
	if q.Session != "" {
		language, err = r.p.planCell(&c)
	} else if c.containment, err = r.p.containmentOf(q.Backend, q.Profile, q.Require); err == nil {
		c.limits, err = r.p.limit(q.Namespace, q.Bounds)
	}
	if err != nil {
		return c, err
	}
	if err := r.check(ctx, &c, language); err != nil {
		return c, err
	}
	if err := r.p.review(ctx, c); err != nil {
		return c, err
	}
	r.res.Language, r.res.Name, r.res.Profile, r.res.Backend = c.program.Language, c.program.Name, c.profile, c.backend.Name()
	r.know(c)
	return c, nil
}

// check parses the code, which is in language if nothing else says so, and decides which language's interpreter the sandbox is
// to show. A command has nothing that could be parsed.
func (r *run) check(ctx context.Context, c *plan, language string) (err error) {
	q := c.request
	if q.Command != nil {
		c.program, c.unfenced, c.shows = validate.Checked{Language: validate.Command, Name: q.Name}, q.Code, backends.AnyProgram
		if q.Language == "" {
			return nil
		}
		if c.shows, err = validate.Language(q.Language); err != nil {
			return refuse(StageValidate, err.Error(), "")
		}
		return nil
	}
	if is, err := r.other(c, language); is {
		return err
	}
	code := q.source(language)
	c.unfenced = code.Source
	if c.program, err = validate.Check(ctx, code); err != nil {
		return invalid(err)
	}
	if c.shows = c.program.Language; c.shows == validate.Command {
		c.shows = backends.AnyProgram
	}
	if asked, err := validate.Language(cmp.Or(q.Language, language)); err == nil && asked != c.program.Language {
		r.warn("the code was taken for " + c.program.Language + ", as the fence around it says")
	}
	if c.session != nil && c.program.Language != language {
		return otherLanguage(language, c.program.Language)
	}
	return nil
}

// source is the code without the fence that an agent may have put around it. language is what it is if nothing else says so.
func (q Request) source(language string) validate.Code {
	code := validate.Code{Language: cmp.Or(q.Language, language), Name: q.Name, Source: q.Code}
	if !q.Show {
		return code
	}
	inner, named := notebook.Unfence(string(q.Code))
	if _, err := validate.Language(named); err == nil {
		code.Language = named
	}
	code.Source = []byte(inner)
	return code
}

// checkRequest refuses a request whose fields are unsound in themselves.
func checkRequest(q Request) error {
	if _, err := ulid.ParseStrict(q.ID); err != nil {
		return refuse(StageValidate, fmt.Sprintf("the id %q is not a ULID", q.ID), "leave it out")
	}
	if !validName().MatchString(q.Namespace) {
		return refuse(StageValidate, fmt.Sprintf("%q is not a namespace", q.Namespace),
			"use up to 64 letters, digits, dots, dashes and underscores")
	}
	if q.Command != nil && (len(q.Command) == 0 || q.Command[0] == "" || q.Session != "") {
		return refuse(StageValidate, "a command begins with the name of a program, and has a sandbox of its own", "")
	}
	for _, a := range slices.Concat(q.Args, q.Command) {
		if strings.Contains(a, "\x00") {
			return refuse(StageValidate, "an argument holds a NUL byte, which no program can be given", "")
		}
	}
	if err := checkEnv(q.Env, q.Secrets); err != nil {
		return err
	}
	for _, m := range q.Mounts {
		if !path.IsAbs(m.Host) || !path.IsAbs(m.Inside) {
			return refuse(StageValidate, fmt.Sprintf("the mount %s:%s is not absolute on both sides", m.Host, m.Inside), "")
		}
	}
	return nil
}

// checkEnv refuses variables that are malformed, or are secrets, too.
func checkEnv(env, secrets []string) error {
	for _, kv := range env {
		name, value, ok := strings.Cut(kv, "=")
		switch {
		case !ok || !envName().MatchString(name):
			// The value may be secret, and the name may be what was meant as one: neither is shown.
			return refuse(StageValidate, "an environment variable is not of the form NAME=VALUE", remedy.SetEnv)
		case strings.Contains(value, "\x00"):
			return refuse(StageValidate, fmt.Sprintf("the environment variable %s holds a NUL byte", name), "")
		case slices.Contains(secrets, name):
			return refuse(StageValidate, fmt.Sprintf("%s is both a secret and an environment variable", name),
				"give one of ", remedy.Secret, " and ", remedy.Env)
		}
	}
	return nil
}

var (
	envName   = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
	validName = lazy.Regexp(`^[A-Za-z0-9._-]{1,64}$`)
)

// containmentOf returns the backend, the profile ("" for the defaults), and the layers that must hold: those of the
// profile, and more.
func (p *Pipeline) containmentOf(backend, profile string, more []string) (c containment, err error) {
	if c.backend, err = p.backend(backend); err != nil {
		return c, err
	}
	c.profile = cmp.Or(profile, p.cfg.Profile)
	known, ok := p.cfg.Profiles[c.profile]
	if !ok {
		return c, refuse(StageValidate, fmt.Sprintf("there is no profile called %q", c.profile),
			"choose one of: "+strings.Join(slices.Sorted(maps.Keys(p.cfg.Profiles)), ", ")+", or name it under ", remedy.Setting.With("profiles"))
	}
	if c.base = known.Base; known.Require == nil {
		known.Require = c.backend.Promises(c.base)
	}
	layers := slices.Concat(known.Require, more)
	for _, l := range layers {
		if !slices.Contains(allLayers, l) {
			return c, refuse(StageValidate, fmt.Sprintf("there is no layer called %q", l), "choose from: "+strings.Join(allLayers, ", "))
		}
	}
	for _, l := range allLayers {
		if slices.Contains(layers, l) {
			c.requires = append(c.requires, l)
		}
	}
	return c, nil
}

// backend returns the backend of this name, or the default one.
func (p *Pipeline) backend(name string) (backends.Backend, error) {
	var names []string
	for _, b := range p.cfg.Backends {
		if name == "" || b.Name() == name {
			return b, nil
		}
		names = append(names, b.Name())
	}
	if names == nil {
		return nil, refuse(StageValidate, "there is no backend", "")
	}
	return nil, refuse(StageValidate, fmt.Sprintf("there is no backend called %q", name),
		"choose one of: "+strings.Join(names, ", "))
}

var allLayers = slices.Concat(backends.ContainmentLayers, []string{backends.LayerCgroup, backends.LayerRlimit})

// invalid makes a refusal out of what is wrong with the code. The text may quote the code, which
// the audit log must not hold: there, only places are named.
func invalid(err error) error {
	var bad *validate.Error
	if !errors.As(err, &bad) {
		return broke(StageValidate, err)
	}
	e := refuseFor(err, StageValidate, "")
	for _, p := range bad.Problems {
		if p.Line > 0 {
			e.public = fmt.Sprintf("the code has 1 problem, in line %d", p.Line)
			if n := len(bad.Problems); n > 1 {
				e.public = fmt.Sprintf("the code has %d problems, the first in line %d", n, p.Line)
			}
			break
		}
	}
	return e
}

// weight returns how many slots of the queue a run with these limits takes: the cores that it may use.
func weight(l backends.Limits) int { return int(math.Ceil(l.CPU)) }

// Probe returns what a backend offers to sandboxes of the default profile; "" is the default backend.
func (p *Pipeline) Probe(ctx context.Context, backend string) (backends.Probe, error) {
	c, err := p.containmentOf(backend, "", nil)
	if err != nil {
		return backends.Probe{}, err
	}
	probe, err := c.backend.Probe(ctx, backends.Spec{Profile: c.base, Require: c.requires})
	probe.Runtimes = append(probe.Runtimes, Offered(p.cfg.Runtimes, c.backend.Name())...)
	return probe, err
}
