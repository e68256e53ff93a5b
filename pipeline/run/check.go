package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
	"github.com/sandboxmcp/sandboxmcp/validate"
	"github.com/sandboxmcp/sandboxmcp/validate/notebook"
)

// plan holds the decisions about a request before any effect of it: its code was read, and parsed if it is Node or
// shell (Python and R are parsed by their interpreter, or for the review), and it is within the limits of policy.
// Nothing changes it later.
type plan struct {
	containment.Containment
	request  Request
	program  validate.Checked
	shows    string           // the language whose interpreter the sandbox shows
	unfenced []byte           // the request's code without its fence, if it had one
	session  *session.Session // runs the code; nil is a sandbox of its own
	limits   pipeline.Bounds
	tools    []kernel.Tool   // the code can call them
	project  workspace.Named // the operator's workspace, of a run without a session, or the zero value
	saves    *hostfs.Dir     // where the caller wants the artifacts, or nil
}

// planProgram is the first stage: it checks that the request is sound and within the operator's limits.
func planProgram(ctx context.Context, r *pipeline.Run, q Request) (c plan, err error) {
	defer r.TimeStage(&r.Outcome.Timings.Validate)()
	if err := checkRequest(q); err != nil {
		return c, err
	}
	if q.Project != "" && q.Session == "" {
		if c.project, err = workspace.FindNamed(r.Pipeline, q.Namespace, q.Project); err != nil {
			return c, err
		}
		q.Workspace, q.Mounts = c.project.Mount(), slices.Concat(q.Mounts, c.project.Mounts())
	}
	if q.Workspace.Propose {
		if err := workspace.CheckProposal(r.Pipeline); err != nil {
			return c, err
		}
	}
	if err := containment.CheckHome(r.Pipeline, q.Home); err != nil {
		return c, err
	}
	data, err := containment.DataMounts(r.Pipeline, q.Data)
	if err != nil {
		return c, err
	}
	q.Mounts = slices.Concat(q.Mounts, data)
	if c.saves, err = FindArtifacts(r, q.Artifacts); err != nil {
		return c, err
	}
	if err := containment.Overlap(r.Pipeline, q.HostDirs(), c.saves); err != nil {
		return c, err
	}
	c.request = q
	language := ""
	if q.Session != "" {
		language, err = planCell(r.Pipeline, &c)
	} else if c.Containment, err = containment.Choose(r.Pipeline, q.Backend, q.Profile, q.Require); err == nil {
		c.limits, err = r.Pipeline.ResolveLimits(q.Namespace, q.Bounds)
	}
	if err != nil {
		return c, err
	}
	if err := check(ctx, r, &c, language); err != nil {
		return c, err
	}
	if err := review(ctx, r.Pipeline, c); err != nil {
		return c, err
	}
	r.Outcome.Language, r.Outcome.Name, r.Outcome.Profile, r.Outcome.Backend = c.program.Language, c.program.Name, c.Profile, c.Backend.Name()
	c.Describe(r, c.program, c.limits)
	return c, nil
}

// check parses the code and decides which language's interpreter the sandbox shows. language applies if neither the
// request nor a fence names one. A command is not parsed.
func check(ctx context.Context, r *pipeline.Run, c *plan, language string) (err error) {
	q := c.request
	if q.Command != nil {
		c.program, c.unfenced, c.shows = validate.Checked{Language: validate.Command, Name: q.Name}, q.Code, backends.AnyProgram
		if q.Language == "" {
			return nil
		}
		if c.shows, err = validate.Language(q.Language); err != nil {
			return pipeline.Refuse(pipeline.StageValidate, err.Error(), "")
		}
		return nil
	}
	if is, err := checkOwnLanguage(r, c, language); is {
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
		r.Warn("the code was run as " + c.program.Language + ", the language of its fence")
	}
	if c.session != nil && c.program.Language != language {
		return containment.WrongLanguage(language, c.program.Language)
	}
	return nil
}

// source returns the code without the fence that an agent may have put around it. language applies if neither the
// request nor the fence names one.
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
	if err := pipeline.CheckIDAndNamespace(q.ID, q.Namespace); err != nil {
		return err
	}
	if q.Command != nil && (len(q.Command) == 0 || q.Command[0] == "" || q.Session != "") {
		return pipeline.Refuse(pipeline.StageValidate, "a command starts with the name of a program, and can't run in a session", "")
	}
	for _, a := range slices.Concat(q.Args, q.Command) {
		if strings.Contains(a, "\x00") {
			return pipeline.Refuse(pipeline.StageValidate, "an argument contains a NUL byte, which can't be passed to a program", "")
		}
	}
	if err := containment.CheckEnv(q.Env, q.Secrets); err != nil {
		return err
	}
	for _, m := range q.Mounts {
		if !path.IsAbs(m.Host) || !path.IsAbs(m.Inside) {
			return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the mount %s:%s needs two absolute paths", m.Host, m.Inside), "")
		}
	}
	return nil
}

// invalid returns a refusal about unsound code. Its text may quote the code, which the audit log must not contain:
// there, only line numbers are named.
func invalid(err error) error {
	var bad *validate.Error
	if !errors.As(err, &bad) {
		return pipeline.WrapError(pipeline.StageValidate, err)
	}
	e := pipeline.RefuseBecause(err, pipeline.StageValidate, "")
	for _, p := range bad.Problems {
		if p.Line > 0 {
			e.WithLogReason(fmt.Sprintf("the code has 1 problem, in line %d", p.Line))
			if n := len(bad.Problems); n > 1 {
				e.WithLogReason(fmt.Sprintf("the code has %d problems, the first in line %d", n, p.Line))
			}
			break
		}
	}
	return e
}
