package pipeline

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
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// NewSession asks for a session. Zero fields are the operator's defaults. It is in the audit log before anybody can use it. It comes to its
// [session.Info].
type NewSession struct {
	Namespace, Language, Backend, Profile string
	Allow                                 []string // names that its cells may reach; nil and empty as in Request
	// Network, if it is not nil, takes the place of Allow, and may be replaced later: see SetNetwork.
	Network        *Network
	Limits         Bounds // Wall and Output are those of each cell that asks for none
	Idle, Lifetime time.Duration

	// Bare is a session without an interpreter: for programs, files, and contexts. Language "" then shows all interpreters.
	Bare bool
	// Home is its home directory, "/home/NAME"; "" is /workspace.
	Home string
	// Guest refuses a session whose files could not be had: one without an interpreter needs no such word.
	Guest bool
	Env   []string // KEY=VALUE, of all that runs in it
	Files string   // a paused session of the namespace, which is not there any more then, or a snapshot, whose files it gets
	Pause bool     // it is paused when its lifetime is up, and not lost
	Data  []string // names of the operator's directories of data to show, see [DataDir]

	Git GitIdentity // of commits in it; what is empty is the operator's

	// Tools are functions of its client that its code can call, by runs in the background: see Resume. ToolTimeout bounds each call; 0 is five
	// minutes. The time of the code goes on meanwhile.
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
		return refuse(StageValidate, fmt.Sprintf("the metadata have more than %d bytes", maxMetadata), "give less")
	}
	return nil
}

func (q NewSession) subject() subject {
	f := envFacts(q.Env)
	f.add("allow", q.Allow, len(q.Allow))
	return subject{name: "session", namespace: q.Namespace, language: q.Language, facts: f}
}

// plan checks a session, and decides what it may reach.
func (q NewSession) plan(_ context.Context, r *run) (action[session.Info], error) {
	c, err := r.checkSession(q)
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
	route, err := r.route(rules.Allow, false)
	if err != nil {
		return nil, err
	}
	lease, headers, err := rules.lease(r.p.cfg.Vault, r.res.ID)
	if err != nil {
		return nil, err
	}
	held, opened := &vault.Held{}, false
	if len(headers) > 0 {
		held.Add(lease)
	}
	r.leases = held.Leases()
	r.releases = append(r.releases, func() {
		if !opened {
			held.Leases().Close()
		}
	})
	route.open, route.Without, route.Headers = q.Network != nil, rules.Deny, headers
	out, err := r.newOutbound(c.base, rules.Allow, route, held.Leases, r.res.ID)
	if err != nil {
		return nil, err
	}
	var files *savedFiles
	if q.Files != "" {
		if files = r.p.paused.take(r.res.Namespace, q.Files); files == nil {
			return nil, sessionError(StageValidate, fmt.Errorf("%w: %.40q", session.ErrUnknown, q.Files))
		}
		r.releases = append(r.releases, func() { r.p.paused.giveBack(files) })
	}
	return &change[session.Info]{task: task[session.Info]{run: r, stage: StageBackend, slots: c.limits.Limits, do: func(ctx context.Context) (session.Info, error) {
		info, err := r.openConnected(ctx, q, c, out, held)
		opened = err == nil
		if err == nil && files != nil {
			err = r.restore(ctx, info, files)
		}
		return info, err
	}}}, nil
}

// rememberClosed is how long a backend that could give a session no gateway is not asked for one that nobody has asked for.
const rememberClosed = 10 * time.Minute

// openConnected starts a session with its way out. Where the backend can't give it one, as a cluster that enforces no network policies, a session
// that has asked for none starts without: what may be approved later is not worth a refusal.
func (r *run) openConnected(ctx context.Context, q NewSession, c plan, out *outbound.Session, held *vault.Held) (session.Info, error) {
	if q.Allow != nil || q.Network != nil {
		return r.openSession(ctx, q, c, out, held)
	}
	backend := c.backend.Name()
	if _, closed := r.p.closed.Get(backend, rememberClosed); !closed {
		info, err := r.openSession(ctx, q, c, out, held)
		if e, is := errors.AsType[*Error](err); !is || e.Layer != backends.LayerNet {
			return info, err
		}
		r.p.closed.Put(backend, true)
	}
	return r.openSession(ctx, q, c, nil, held)
}

// openSession starts a session. It is in the audit log before anybody else can use it.
func (r *run) openSession(ctx context.Context, q NewSession, c plan, out *outbound.Session, held *vault.Held) (session.Info, error) {
	view, err := r.p.packagesOf(ctx, c.containment, r.res.Namespace, c.shows, r.res.ID)
	if err != nil {
		return session.Info{}, err
	}
	needed := q.Guest || q.Bare || q.Pause || q.Files != ""
	var agent atomic.Bool
	var tools []string
	for _, t := range q.Tools {
		tools = append(tools, t.Name)
	}
	spec := backends.Spec{ID: r.res.ID, Language: c.shows, Profile: c.base, Require: c.requires,
		Limits: c.limits.Limits, Mounts: slices.Concat(c.request.Mounts, view.Mounts), Keep: true,
		Home: q.Home, Guest: needed || c.base != "landlock"}
	reach := out.Shape(&spec)
	plan := session.Plan{
		Agent: agent.Load,
		Info: session.Info{
			ID: r.res.ID, Namespace: r.res.Namespace, Language: c.program.Language, Backend: c.backend.Name(), Profile: c.profile,
			Idle: q.Idle.Seconds(), Lifetime: q.Lifetime.Seconds(), Limits: LimitsOf(c.limits),
			Bare: q.Bare, Home: q.Home, Pause: q.Pause, Owner: caller(ctx).Identity, Template: q.Template, Metadata: q.Metadata, Allow: q.Allow, Tools: tools,
		},
		Env:   slices.Concat(view.Env, reach, q.Git.or(r.p.cfg.Git).env(), q.Env),
		Tools: c.tools, ToolTimeout: q.ToolTimeout,
		Leases:   held,
		Outbound: out,
	}
	if store := r.p.cfg.Packages; store != nil {
		plan.Close = append(plan.Close, func() { store.DropSession(r.res.ID) }) // what stays is removed when the store is opened again
	}
	plan.Close = append(plan.Close, view.Release)
	start := func(ctx context.Context) (backends.Sandbox, error) {
		spec := spec
		sandbox, err := c.backend.Start(ctx, spec)
		if spec.Guest && !needed && errors.As(err, new(*backends.Refusal)) { // perhaps only the agent can't be shown
			spec.Guest = false
			sandbox, err = c.backend.Start(ctx, spec)
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
	info, err := r.p.sessions.Open(ctx, plan, start, func(info session.Info) error {
		if err := c.holds(info.Layers); err != nil {
			return err
		}
		made := facts{"layers": info.Layers, "idle_seconds": info.Idle, "lifetime_seconds": info.Lifetime}
		made.add("files_of", q.Files, len(q.Files))
		made.add("data", q.Data, len(q.Data))
		if out == nil {
			made["no_network"] = true
		}
		made.add("tools", info.Tools, len(info.Tools))
		r.p.journal.begin(journalSession, info.ID, info.Namespace)
		r.noteRun(event.SessionCreated, made)
		return r.flush(ctx)
	})
	if err != nil {
		r.p.journal.endSession(r.res.ID)
		return session.Info{}, sessionError(StageBackend, err)
	}
	return info, nil
}

// checkSession validates a request for a session.
func (r *run) checkSession(q NewSession) (c plan, err error) {
	wrong := cmp.Or(checkRequest(Request{ID: r.res.ID, Namespace: r.res.Namespace}), checkEnv(slices.Concat(q.Env, q.Git.env()), nil), checkMetadata(q.Metadata))
	if wrong != nil {
		return c, wrong
	}
	if max(len(q.Git.Name), len(q.Git.Email)) > maxAuthor {
		return c, refuse(StageValidate, fmt.Sprintf("the name or address of an author of commits has more than %d bytes", maxAuthor), "give less")
	}
	if c.containment, err = r.p.containmentOf(q.Backend, q.Profile, nil); err != nil {
		return c, err
	}
	if c.shows, c.program.Language = backends.AnyProgram, backends.AnyProgram; !q.Bare || q.Language != "" {
		if c.program.Language, c.shows, err = r.p.sessionLanguage(q.Language, c.backend.Name()); err != nil {
			return c, err
		}
	}
	if c.request.Mounts, err = r.p.dataMounts(q.Data); err != nil {
		return c, err
	}
	if c.tools, err = kernelTools(c.program.Language, q.Tools); err != nil {
		return c, err
	}
	if err := r.p.sessions.Check(q.Idle, q.Lifetime); err != nil {
		return c, refuse(StageValidate, err.Error(), "ask for less, or ", remedy.Raise.With("sessions"))
	}
	if c.limits, err = r.p.limit(r.res.Namespace, q.Limits); err != nil {
		return c, err
	}
	r.res.Backend, r.res.Profile, r.res.Language = c.backend.Name(), c.profile, c.program.Language
	r.know(c)
	return c, nil
}

// EndSession ends a session of a namespace, and all that runs in it, or removes the files of a paused one or a snapshot. It comes to its last [session.Info].
type EndSession struct{ Namespace, Session string }

func (q EndSession) subject() subject { return about("session", q.Namespace, q.Session) }

// plan finds the session. The row of its end, which sessions have of other causes, too, is written when it is gone.
func (q EndSession) plan(_ context.Context, r *run) (action[session.Info], error) {
	s, err := r.p.own(q.Namespace, q.Session)
	if k := r.p.paused.find(q.Namespace, q.Session); k != nil && err != nil {
		return &change[session.Info]{task: task[session.Info]{run: r, stage: StageValidate, do: func(context.Context) (session.Info, error) {
			r.p.paused.drop(q.Session)
			return k.info, nil
		}}, row: sessionForgotten, facts: facts{"session": q.Session, "why": "closed"}, takes: true}, nil
	}
	if err != nil {
		return nil, err
	}
	return &change[session.Info]{task: task[session.Info]{run: r, stage: StageValidate, do: func(ctx context.Context) (session.Info, error) {
		return r.endSession(ctx, s, "closed")
	}}}, nil
}

// endSession ends a session for a reason, and has its row say who did.
func (r *run) endSession(ctx context.Context, s *session.Session, why string) (session.Info, error) {
	who := caller(ctx)
	s.Change(func(i *session.Info) { i.By, i.User, i.Identity = who.By, who.User, who.Identity })
	id, unrecorded := s.Info().ID, &atomic.Bool{}
	r.p.ends.Store(id, unrecorded)
	defer r.p.ends.Delete(id)
	info, err := r.p.sessions.End(id, why)
	if err != nil {
		return info, sessionError(StageValidate, err)
	}
	if unrecorded.Load() {
		info.Late = audit.OwedText
		r.warnLate()
	}
	return info, nil
}

// own returns a living session of a namespace.
func (p *Pipeline) own(namespace, id string) (*session.Session, error) {
	s, err := p.sessions.Get(id)
	if err == nil && s.Info().Namespace != orDefault(namespace) {
		err = fmt.Errorf("%w: %.40q", session.ErrUnknown, id)
	}
	if err != nil {
		return nil, sessionError(StageValidate, err)
	}
	return s, nil
}

// Stand takes a place in the lines of sessions of a namespace: requests whose context has it have these when those that stood there before
// have left. Sessions that there are not have no line. The place of a context is kept.
func (p *Pipeline) Stand(ctx context.Context, namespace string, ids ...string) *session.Place {
	if place := session.Keep(ctx); place != nil {
		return place
	}
	var in []*session.Session
	for _, id := range ids {
		if s, err := p.own(namespace, id); err == nil {
			in = append(in, s)
		}
	}
	return p.sessions.Stand(in...)
}

func orDefault(namespace string) string {
	return cmp.Or(namespace, "default")
}

// sessionEnded records the end of a session, however it came.
func (p *Pipeline) sessionEnded(info session.Info) {
	p.forget(info.ID)
	data := facts{"language": info.Language, "backend": info.Backend, "why": info.Ended, "cells": info.Cells, "restarts": len(info.Restarts)}
	Caller{info.By, info.User, info.Identity}.sign(data)
	ctx, cancel := context.WithTimeout(context.Background(), finishTimeout)
	defer cancel()
	if p.cfg.Audit == nil {
		return
	}
	_, err := p.cfg.Audit.Append(ctx, audit.Entry{Kind: event.SessionKilled, Run: info.ID, Namespace: info.Namespace, Data: data, Late: true})
	p.publish(event.SessionKilled, info.ID, info.Namespace, data)
	if asked, is := p.ends.Load(info.ID); is && err != nil {
		asked.(*atomic.Bool).Store(true)
	}
	if err == nil || errors.As(err, new(*audit.Owed)) {
		p.journal.endSession(info.ID)
	}
}

// Sessions lists those of a namespace, or of all for "": the living, and the last that have ended.
func (p *Pipeline) Sessions(namespace string) []session.Info { return p.sessions.List(namespace) }

// SessionEnd returns what is closed when a session of a namespace begins to end, nil if there is none.
func (p *Pipeline) SessionEnd(namespace, id string) <-chan struct{} {
	s, err := p.own(namespace, id)
	if err != nil {
		return nil
	}
	return s.Dead()
}

// Session tells about one session of a namespace, also for a while after its end.
func (p *Pipeline) Session(namespace, id string) (session.Info, error) {
	info, err := p.sessions.Info(id)
	if err == nil && info.Namespace != orDefault(namespace) {
		err = fmt.Errorf("%w: %.40q", session.ErrUnknown, id)
	}
	if err != nil {
		return session.Info{}, sessionError(StageValidate, err)
	}
	return info, nil
}
