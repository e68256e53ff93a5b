package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/validate"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// New asks for a session. Zero fields are the operator's defaults. It is in the audit log before anybody can use it. It
// comes to its [Info].
type New struct {
	Namespace, Language, Backend, Profile string
	Allow                                 []string // names that its cells may reach; nil and empty as in Request
	// Network, if it is not nil, takes the place of Allow, and may be replaced later: see SetNetwork.
	Network        *Network
	Limits         pipeline.Bounds // Wall and Output are those of each cell that asks for none
	Idle, Lifetime time.Duration

	// Bare is a session without an interpreter: for programs, files, and contexts. Language "" then shows all
	// interpreters.
	Bare bool
	// Home is its home directory, "/home/NAME"; "" is /workspace.
	Home string
	// Guest refuses a session whose files could not be had: one without an interpreter needs no such word.
	Guest bool
	Env   []string // KEY=VALUE, of all that runs in it
	Files string   // a paused session of the namespace, which is not there any more then, or a snapshot, whose files it gets
	Pause bool     // it is paused when its lifetime is up, and not lost
	Data  []string // names of the operator's directories of data to show, see [DataDir]

	Git pipeline.GitIdentity // of commits in it; what is empty is the operator's

	// Tools are functions of its client that its code can call, by runs in the background: see Resume. ToolTimeout bounds
	// each call; 0 is five minutes. The time of the code goes on meanwhile.
	Tools       []Tool
	ToolTimeout time.Duration

	Template string            // see session.Info, as the next
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
		return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the metadata have more than %d bytes", maxMetadata), "give less")
	}
	return nil
}

func (q New) Subject() pipeline.Subject {
	f := pipeline.EnvFacts(q.Env)
	f.AddIf("allow", q.Allow, len(q.Allow))
	return pipeline.Subject{Name: "session", Namespace: q.Namespace, Language: q.Language, Facts: f}
}

// Plan checks a session, and decides what it may reach.
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
	return &pipeline.Change[Info]{Task: pipeline.Task[Info]{Run: r, Stage: pipeline.StageBackend, Slots: c.limits.Limits, Do: func(ctx context.Context) (Info, error) {
		info, err := openConnected(ctx, r, q, c, out, held)
		opened = err == nil
		if err == nil && files != nil {
			err = restore(ctx, r, info, files)
		}
		return info, err
	}}}, nil
}

// rememberClosed is how long a backend that could give a session no gateway is not asked for one that nobody has asked
// for.
const rememberClosed = 10 * time.Minute

// openConnected starts a session with its way out. Where the backend can't give it one, as a cluster that enforces no
// network policies, a session that has asked for none starts without: what may be approved later is not worth a
// refusal.
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

// openSession starts a session. It is in the audit log before anybody else can use it.
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
	reach := out.PrepareSpec(&spec)
	plan := Plan{
		Agent: agent.Load,
		Info: Info{
			ID: r.Outcome.ID, Namespace: r.Outcome.Namespace, Language: c.language, Backend: c.Backend.Name(), Profile: c.Profile,
			Idle: q.Idle.Seconds(), Lifetime: q.Lifetime.Seconds(), Limits: pipeline.LimitsOf(c.limits),
			Bare: q.Bare, Home: q.Home, Pause: q.Pause, Owner: pipeline.CallerFrom(ctx).Identity, Template: q.Template, Metadata: q.Metadata, Allow: q.Allow, Tools: tools,
		},
		Env:   slices.Concat(view.Env, reach, q.Git.Or(r.Pipeline.Config.Git).Env(), q.Env),
		Tools: c.tools, ToolTimeout: q.ToolTimeout,
		Leases:   held,
		Outbound: out,
	}
	if store := r.Pipeline.Config.Packages; store != nil {
		plan.Close = append(plan.Close, func() { store.DropSession(r.Outcome.ID) }) // what stays is removed when the store is opened again
	}
	plan.Close = append(plan.Close, view.Release)
	start := func(ctx context.Context) (backends.Sandbox, error) {
		spec := spec
		sandbox, err := c.Backend.Start(ctx, spec)
		if spec.Guest && !needed && errors.As(err, new(*backends.Refusal)) { // perhaps only the agent can't be shown
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

// sessionPlan is what was decided about a session before it is started.
type sessionPlan struct {
	containment.Containment
	language string
	shows    string // the language whose interpreter the sandbox shows
	limits   pipeline.Bounds
	mounts   []backends.Mount
	tools    []kernel.Tool // that its code can call
}

// checkSession validates a request for a session.
func checkSession(r *pipeline.Run, q New) (c sessionPlan, err error) {
	wrong := cmp.Or(pipeline.CheckIDAndNamespace(r.Outcome.ID, r.Outcome.Namespace), containment.CheckEnv(slices.Concat(q.Env, q.Git.Env()), nil), checkMetadata(q.Metadata))
	if wrong != nil {
		return c, wrong
	}
	if max(len(q.Git.Name), len(q.Git.Email)) > pipeline.MaxGitField {
		return c, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the name or address of an author of commits has more than %d bytes", pipeline.MaxGitField), "give less")
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

// End ends a session of a namespace, and all that runs in it, or removes the files of a paused one or a snapshot. It
// comes to its last [Info].
type End struct{ Namespace, Session string }

func (q End) Subject() pipeline.Subject { return pipeline.About("session", q.Namespace, q.Session) }

// Plan finds the session. The row of its end, which sessions have of other causes, too, is written when it is gone.
func (q End) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[Info], error) {
	s, err := FindSession(r.Pipeline, q.Namespace, q.Session)
	if k := stateOf(r.Pipeline).paused.findFiles(q.Namespace, q.Session); k != nil && err != nil {
		return &pipeline.Change[Info]{Task: pipeline.Task[Info]{Run: r, Stage: pipeline.StageValidate, Do: func(context.Context) (Info, error) {
			stateOf(r.Pipeline).paused.drop(q.Session)
			return k.info, nil
		}}, RowKind: sessionForgotten, Facts: pipeline.Facts{"session": q.Session, "why": "closed"}, Revokes: true}, nil
	}
	if err != nil {
		return nil, err
	}
	return &pipeline.Change[Info]{Task: pipeline.Task[Info]{Run: r, Stage: pipeline.StageValidate, Do: func(ctx context.Context) (Info, error) {
		return endSession(ctx, r, s, "closed")
	}}}, nil
}

// endSession ends a session for a reason, and has its row say who did.
func endSession(ctx context.Context, r *pipeline.Run, s *Session, why string) (Info, error) {
	who := pipeline.CallerFrom(ctx)
	s.Change(func(i *Info) { i.By, i.User, i.Identity = who.By, who.User, who.Identity })
	id, unrecorded := s.Info().ID, &atomic.Bool{}
	stateOf(r.Pipeline).ends.Store(id, unrecorded)
	defer stateOf(r.Pipeline).ends.Delete(id)
	info, err := stateOf(r.Pipeline).manager.End(id, why)
	if err != nil {
		return info, ErrorOf(pipeline.StageValidate, err)
	}
	if unrecorded.Load() {
		info.Late = audit.OwedText
		r.WarnLateRow()
	}
	return info, nil
}

// Enqueue takes a place in the lines of sessions of a namespace: requests whose context has it have these when those that
// stood there before have left. Sessions that there are not have no line. The place of a context is kept.
func Enqueue(ctx context.Context, p *pipeline.Pipeline, namespace string, ids ...string) *Ticket {
	if place := RetainTicket(ctx); place != nil {
		return place
	}
	var in []*Session
	for _, id := range ids {
		if s, err := FindSession(p, namespace, id); err == nil {
			in = append(in, s)
		}
	}
	return stateOf(p).manager.Enqueue(in...)
}

// sessionEnded records the end of a session, however it came.
func sessionEnded(p *pipeline.Pipeline, info Info) {
	p.ForgetApprovals(info.ID)
	data := pipeline.Facts{"language": info.Language, "backend": info.Backend, "why": info.Ended, "cells": info.Cells, "restarts": len(info.Restarts)}
	pipeline.Caller{By: info.By, User: info.User, Identity: info.Identity}.AddTo(data)
	ctx, cancel := context.WithTimeout(context.Background(), pipeline.FinishTimeout)
	defer cancel()
	if p.Config.Audit == nil {
		return
	}
	_, err := p.Config.Audit.Append(ctx, audit.Entry{Kind: event.SessionKilled, Run: info.ID, Namespace: info.Namespace, Data: data, Late: true})
	p.PublishEvent(event.SessionKilled, info.ID, info.Namespace, data)
	if asked, is := stateOf(p).ends.Load(info.ID); is && err != nil {
		asked.(*atomic.Bool).Store(true)
	}
	if err == nil || errors.As(err, new(*audit.Owed)) {
		p.Journal.RemoveSession(info.ID)
	}
}

// List lists those of a namespace, or of all for "": the living, and the last that have ended.
func List(p *pipeline.Pipeline, namespace string) []Info {
	return stateOf(p).manager.List(namespace)
}

// EndedChan returns what is closed when a session of a namespace begins to end, nil if there is none.
func EndedChan(p *pipeline.Pipeline, namespace, id string) <-chan struct{} {
	s, err := FindSession(p, namespace, id)
	if err != nil {
		return nil
	}
	return s.Dead()
}

// InfoOf tells about one session of a namespace, also for a while after its end.
func InfoOf(p *pipeline.Pipeline, namespace, id string) (Info, error) {
	info, err := stateOf(p).manager.Info(id)
	if err == nil && info.Namespace != pipeline.NamespaceOrDefault(namespace) {
		err = fmt.Errorf("%w: %.40q", ErrUnknown, id)
	}
	if err != nil {
		return Info{}, ErrorOf(pipeline.StageValidate, err)
	}
	return info, nil
}
