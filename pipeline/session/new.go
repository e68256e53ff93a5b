package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
	"github.com/sandboxmcp/sandboxmcp/validate"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// New creates a session. Zero fields get the operator's defaults. The audit log has the session before anybody can
// use it. Its answer is the session's [Info].
type New struct {
	Namespace, Language, Backend, Profile string
	Allow                                 []string // hosts that its cells may reach; nil and empty as in Request
	// Network, if not nil, replaces Allow, and SetNetwork may replace it later.
	Network        *Network
	Limits         pipeline.Bounds // Wall and Output apply to each cell without its own
	Idle, Lifetime time.Duration

	// Bare creates a session without an interpreter: for programs, files, and contexts. Language "" then shows all
	// interpreters.
	Bare bool
	// Home is the session's home directory, "/home/NAME"; "" is /workspace.
	Home string
	// Guest refuses a session without file access. Bare implies it.
	Guest bool
	Env   []string // KEY=VALUE, for all programs in it
	Files string   // a paused session of the namespace, which this consumes, or a snapshot: its files are restored
	Pause bool     // pauses it when its lifetime is over, instead of ending it
	Data  []string // names of the operator's directories of data to show, see [DataDir]
	// Project names one of the operator's workspaces, which is /workspace then, see [workspace.Named].
	Project string

	Git pipeline.GitIdentity // author of commits in it; empty fields are the operator's

	// Tools are functions of its client that code of background runs can call: see Resume. ToolTimeout bounds each
	// call; 0 is five minutes. The time limit of the code includes its calls.
	Tools       []Tool
	ToolTimeout time.Duration

	Template string            // Template and Metadata: see Info
	Metadata map[string]string // at most maxMetadata bytes
}

// maxMetadata bounds the metadata of a session, in bytes.
const maxMetadata = 16 << 10

func checkMetadata(m map[string]string) error {
	size := 0
	for k, v := range m {
		size += len(k) + len(v)
	}
	if size > maxMetadata {
		return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the metadata has more than %d bytes", maxMetadata), "send less metadata")
	}
	return nil
}

func (q New) Subject() pipeline.Subject {
	f := pipeline.EnvFacts(q.Env)
	f.AddIf("allow", q.Allow, len(q.Allow))
	return pipeline.Subject{Name: "session", Namespace: q.Namespace, Language: q.Language, Facts: f}
}

// Plan checks the request, and decides which hosts the session may reach.
func (q New) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[Info], error) {
	c, err := checkSession(r, q)
	if err != nil {
		return nil, err
	}
	rules := Network{Allow: q.Allow}
	if q.Network != nil {
		rules = *q.Network
	}
	if err := rules.check(); err != nil {
		return nil, err
	}
	route, err := containment.FindRoute(r, rules.Allow, false)
	if err != nil {
		return nil, err
	}
	lease, headers, err := rules.lease(r.Pipeline.Config.Vault, r.Outcome.ID)
	if err != nil {
		return nil, err
	}
	held, opened := &vault.LeaseSet{}, false
	if len(headers) > 0 {
		held.Add(lease)
	}
	r.Leases = held.Leases()
	r.Releases = append(r.Releases, func() {
		if !opened {
			held.Leases().Close()
		}
	})
	route.Open, route.Without, route.Headers = q.Network != nil, rules.Deny, headers
	out, err := containment.NewOutbound(r, c.Base, rules.Allow, route, held.Leases, r.Outcome.ID)
	if err != nil {
		return nil, err
	}
	var files *savedFiles
	if q.Files != "" {
		if files = stateOf(r.Pipeline).paused.borrowFiles(r.Outcome.Namespace, q.Files); files == nil {
			return nil, ErrorOf(pipeline.StageValidate, fmt.Errorf("%w: %.40q", ErrUnknown, q.Files))
		}
		r.Releases = append(r.Releases, func() { stateOf(r.Pipeline).paused.returnFiles(files) })
	}
	return &pipeline.Change[Info]{Task: pipeline.Task[Info]{Run: r, Stage: pipeline.StageBackend, Slots: c.limits.Limits,
		Do: func(ctx context.Context) (Info, error) {
			info, err := openConnected(ctx, r, q, c, out, held)
			opened = err == nil
			if err == nil && files != nil {
				err = restore(ctx, r, info, files)
			}
			return info, err
		}}}, nil
}

// rememberClosed is the time for which a backend that could not provide a gateway is not tried again for sessions
// that did not ask for network access.
const rememberClosed = 10 * time.Minute

// openConnected starts a session with network access. Some backends can't provide that, such as a cluster that does
// not enforce network policies: then a session that did not ask for it starts without, because access that may be
// approved later is not worth a refusal.
func openConnected(ctx context.Context, r *pipeline.Run, q New, c sessionPlan, out *outbound.Session, held *vault.LeaseSet) (Info, error) {
	if q.Allow != nil || q.Network != nil {
		return openSession(ctx, r, q, c, out, held)
	}
	backend := c.Backend.Name()
	if _, closed := stateOf(r.Pipeline).closed.Get(backend, rememberClosed); !closed {
		info, err := openSession(ctx, r, q, c, out, held)
		if e, is := errors.AsType[*pipeline.Error](err); !is || e.Layer != backends.LayerNet {
			return info, err
		}
		stateOf(r.Pipeline).closed.Store(backend, true)
	}
	return openSession(ctx, r, q, c, nil, held)
}

// openSession starts a session. The audit log has it before anybody else can use it.
func openSession(ctx context.Context, r *pipeline.Run, q New, c sessionPlan, out *outbound.Session, held *vault.LeaseSet) (Info, error) {
	view, err := containment.PackagesOf(ctx, r.Pipeline, c.Containment, r.Outcome.Namespace, c.shows, r.Outcome.ID)
	if err != nil {
		return Info{}, err
	}
	needed := q.Guest || q.Bare || q.Pause || q.Files != ""
	var agent atomic.Bool
	var tools []string
	for _, t := range q.Tools {
		tools = append(tools, t.Name)
	}
	spec := backends.Spec{ID: r.Outcome.ID, Language: c.shows, Profile: c.Base, Require: c.Requires,
		Limits: c.limits.Limits, Mounts: slices.Concat(c.mounts, view.Mounts), Keep: true,
		Home: q.Home, Guest: needed || c.Base != "landlock"}
	spec.Workspace = c.project.Mount()
	reach := out.PrepareSpec(&spec)
	plan := Plan{
		Agent: agent.Load,
		Info: Info{
			ID: r.Outcome.ID, Namespace: r.Outcome.Namespace, Language: c.language, Backend: c.Backend.Name(), Profile: c.Profile,
			Idle: q.Idle.Seconds(), Lifetime: q.Lifetime.Seconds(), Limits: pipeline.LimitsOf(c.limits),
			Bare: q.Bare, Home: q.Home, Pause: q.Pause, InWorkspace: InWorkspace{Workspace: q.Project}, Owner: pipeline.CallerFrom(ctx).Identity,
			Template: q.Template, Metadata: q.Metadata, Allow: q.Allow, Tools: tools,
		},
		Env:   slices.Concat(view.Env, reach, q.Git.Or(r.Pipeline.Config.Git).Env(), q.Env),
		Tools: c.tools, ToolTimeout: q.ToolTimeout,
		Leases:   held,
		Outbound: out,
	}
	if spec.Workspace.Propose {
		plan.View = &workspace.View{Dir: c.project.Path, Policy: c.project.Changes}
		plan.BeforeClose = func(s *Session) { proposeLast(r.Pipeline, s) }
	}
	if store := r.Pipeline.Config.Packages; store != nil {
		plan.Close = append(plan.Close, func() { store.DropSession(r.Outcome.ID) }) // the store removes leftovers when it is opened again
	}
	plan.Close = append(plan.Close, view.Release)
	start := func(ctx context.Context) (backends.Sandbox, error) {
		spec := spec
		if spec.Workspace.Propose {
			plan.View.Began = changes.Began(r.Began) // before a backend copies it
		}
		sandbox, err := c.Backend.Start(ctx, spec)
		if spec.Guest && !needed && errors.As(err, new(*backends.Refusal)) { // retry without the agent, which may be the only obstacle
			spec.Guest = false
			sandbox, err = c.Backend.Start(ctx, spec)
		}
		agent.Store(spec.Guest)
		if err != nil {
			return nil, err
		}
		connected, err := out.Attach(sandbox, outbound.Scope{})
		if err != nil {
			sandbox.Close()
		}
		return connected, err
	}
	info, err := stateOf(r.Pipeline).manager.Open(ctx, plan, start, func(info Info) error {
		if err := c.CheckLayers(info.Layers); err != nil {
			return err
		}
		made := pipeline.Facts{"layers": info.Layers, "idle_seconds": info.Idle, "lifetime_seconds": info.Lifetime}
		made.AddIf("files_of", q.Files, len(q.Files))
		made.AddIf("data", q.Data, len(q.Data))
		made.AddIf("project", q.Project, len(q.Project))
		if out == nil {
			made["no_network"] = true
		}
		made.AddIf("tools", info.Tools, len(info.Tools))
		r.Pipeline.Journal.Add(pipeline.JournalSession, info.ID, info.Namespace)
		r.AddRunRow(event.SessionCreated, made)
		return r.FlushRows(ctx)
	})
	if err != nil {
		r.Pipeline.Journal.RemoveSession(r.Outcome.ID)
		return Info{}, ErrorOf(pipeline.StageBackend, err)
	}
	return info, nil
}

// sessionPlan holds the decisions about a session before it starts.
type sessionPlan struct {
	containment.Containment
	language string
	shows    string // the language whose interpreter the sandbox shows
	limits   pipeline.Bounds
	mounts   []backends.Mount
	project  workspace.Named // or the zero value
	tools    []kernel.Tool   // its code can call them
}

// checkSession validates a request for a session.
func checkSession(r *pipeline.Run, q New) (c sessionPlan, err error) {
	wrong := cmp.Or(pipeline.CheckIDAndNamespace(r.Outcome.ID, r.Outcome.Namespace), containment.CheckEnv(slices.Concat(q.Env, q.Git.Env()),
		nil), checkMetadata(q.Metadata))
	if wrong != nil {
		return c, wrong
	}
	if max(len(q.Git.Name), len(q.Git.Email)) > pipeline.MaxGitField {
		return c, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the name or email of the commit author has more than %d bytes",
			pipeline.MaxGitField), "use a shorter one")
	}
	if c.Containment, err = containment.Choose(r.Pipeline, q.Backend, q.Profile, nil); err != nil {
		return c, err
	}
	if c.shows, c.language = backends.AnyProgram, backends.AnyProgram; !q.Bare || q.Language != "" {
		if c.language, c.shows, err = containment.SessionLanguage(r.Pipeline, q.Language, c.Backend.Name()); err != nil {
			return c, err
		}
	}
	if c.mounts, err = containment.DataMounts(r.Pipeline, q.Data); err != nil {
		return c, err
	}
	if q.Project != "" {
		if c.project, err = workspace.FindNamed(r.Pipeline, r.Outcome.Namespace, q.Project); err != nil {
			return c, err
		}
		if q.Pause || q.Files != "" {
			return c, pipeline.Refuse(pipeline.StageValidate, "a session in a workspace can't be paused or have the files of another one",
				"start it without one of the two")
		}
		c.mounts = slices.Concat(c.mounts, c.project.Mounts())
		if err := containment.Overlap(r.Pipeline, append(slices.Clone(c.mounts), c.project.Mount()), nil); err != nil {
			return c, err
		}
	}
	if c.tools, err = kernelTools(c.language, q.Tools); err != nil {
		return c, err
	}
	if err := stateOf(r.Pipeline).manager.Check(q.Idle, q.Lifetime); err != nil {
		return c, pipeline.Refuse(pipeline.StageValidate, err.Error(), "ask for less, or ", remedy.Raise.With("sessions"))
	}
	if c.limits, err = r.Pipeline.ResolveLimits(r.Outcome.Namespace, q.Limits); err != nil {
		return c, err
	}
	r.Outcome.Backend, r.Outcome.Profile, r.Outcome.Language = c.Backend.Name(), c.Profile, c.language
	c.Describe(r, validate.Checked{Language: c.language}, c.limits)
	return c, nil
}
