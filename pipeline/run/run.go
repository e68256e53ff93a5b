// Package run runs programs, and code in sessions. A Request is the effect.
//
// check makes its plan: it finds the language, parses the code of Node and shell, and decides the containment and the
// limits; cell plans the code of a session. The action is an execution, whose methods are its stages. It waits for its
// session and for slots of the queue, leases secrets (run) and decides its network access (egress). It starts its
// sandbox while the start is recorded, and writes the input files (start, inputs). The program runs (exec, or cell in a
// session's interpreter). Its artifacts are hashed and saved (sign, tree, artifacts), hints are added, and the outcome
// is sealed (end).
//
// Code of a session can call tools of its client (tools), which answers through Resume; meanwhile the code gives its
// slots back (seat). StartJob runs a request in the background (job). Analyze and the review of dangerous code use a
// parser in a sandbox of its own (review).
//
// A file calls only files behind it in this order: run, check, end, exec, hint, hint_install, resume, review,
// runtimes, sign, artifacts, start, inputs, egress, job, state, request, cell, tools, seat, tree.
package run

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/signer"
	"github.com/sandboxmcp/sandboxmcp/validate"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// complete fills in the omitted fields of the request. The code of a command is its command line, as typed in a
// shell.
func (q Request) complete() Request {
	if len(q.Command) > 0 {
		q.Code, q.Name = []byte(host.Words(q.Command).String()), path.Base(q.Command[0])
	}
	if q.Stop == nil && q.Session == "" {
		q.Stop = &pipeline.Stopper{Grace: pipeline.InterruptGrace}
	}
	return q
}

func (q Request) Subject() pipeline.Subject {
	q = q.complete()
	s := pipeline.Subject{ID: q.ID, Name: q.Name, Namespace: q.Namespace, Session: q.Session, Language: q.Language, Client: q.Client,
		Code: q.Code, Files: 1}
	if s.Facts = q.facts(); len(q.Command) > 0 {
		s.Language, s.Files = validate.Command, 0
	}
	return s
}

// Plan validates the request.
func (q Request) Plan(ctx context.Context, r *pipeline.Run) (pipeline.Action[pipeline.NoAnswer], error) {
	e := &execution{Run: r}
	r.Releases = append(r.Releases, func() { // one of the last releases
		if q.Display != nil {
			keepTexts(r)
		}
		e.out.WaitForReaders(ctx)
	})
	q = q.complete()
	q.ID, q.Namespace = r.Outcome.ID, r.Outcome.Namespace
	var err error
	e.plan, err = planProgram(ctx, r, q)
	return e, err
}

// execution carries out a plan. Its fields are in the order in which the stages acquire them.
type execution struct {
	*pipeline.Run
	plan
	guard       *session.Guard    // exclusive use of its session, nil without a session
	seat        *slotLease        // nil if the code can't call tools
	outbound    *outbound.Session // nil has no network
	within      *egress.Policy    // the hosts that a cell named
	view        packages.View     // the namespace's packages in the sandbox
	sandbox     backends.Sandbox
	before      func() backends.Usage // usage of its session's sandbox before the program; nil without a session
	command     backends.Command
	inputs      map[string]string    // SHA-256 by name, of the files that we wrote into the workspace
	displayFile string               // the file in which the driver leaves displays; "" without one
	tree        *tree                // the writable host workspace before the program, or nil
	since       time.Time            // when a program that proposes changes got its host workspace
	staged      *signer.Staged       // its artifacts; they get their names when its end is in the log
	out         *pipeline.ProgramEnd // nil until the program begins
	closed      chan error           // gets the result of closing the sandbox
}

// Acquire takes the execution through the stages before its program.
func (e *execution) Acquire(ctx context.Context) error {
	for _, stage := range []func(context.Context) error{e.queue, e.vault, e.egress} {
		if err := stage(ctx); err != nil {
			return err
		}
	}
	return nil
}

// queue acquires the run's session, if it has one, and then slots of the queue.
func (e *execution) queue(ctx context.Context) (err error) {
	defer e.TimeStage(&e.Outcome.Timings.Queue)()
	if e.session != nil {
		if e.guard, err = e.session.AcquireContext(ctx, e.request.Context); err != nil {
			return session.ErrorOf(pipeline.StageQueue, err)
		}
		e.Releases = append(e.Releases, e.guard.Release)
	}
	leave, err := e.AcquireSlots(ctx, e.limits.Limits)
	if err != nil {
		return err
	}
	if e.request.calls != nil && len(e.tools) > 0 {
		e.seat = &slotLease{run: e, lock: make(chan struct{}, 1), leave: leave}
		e.Releases = append(e.Releases, e.seat.close)
	} else {
		e.Releases = append(e.Releases, leave)
	}
	return nil
}

// vault leases the requested secrets. Leases in a session last as long as the session, all others as long as the run.
func (e *execution) vault(ctx context.Context) error {
	defer e.TimeStage(&e.Outcome.Timings.Vault)()
	want := e.request.Secrets
	if e.guard != nil {
		e.Leases, e.CurrentLeases = e.guard.Leases(), e.guard.Leases
		want = slices.DeleteFunc(slices.Clone(want), e.Leases.Has) // the session's leases stay unchanged
	}
	lease, err := e.Pipeline.Config.Vault.Lease(ctx, e.Outcome.Namespace, want)
	if err != nil && ctx.Err() == nil {
		reason, do := remedy.Split(err)
		if names := e.Pipeline.SecretNames(ctx, e.Outcome.Namespace); names != nil && errors.Is(err, vault.ErrNotFound) {
			do = append(pipeline.Remedy{"name an existing one: ", strings.Join(names, ", "), "; or "}, do...)
		}
		no := pipeline.Refuse(pipeline.StageVault, reason, do...)
		no.WithCause(err)
		return no
	}
	if err != nil {
		return pipeline.WrapError(pipeline.StageVault, context.Cause(ctx))
	}
	for _, name := range lease.Unredacted() {
		e.Warn("secret " + name + " is too short or too common to be taken out of the output")
	}
	if len(want) == 0 {
		return nil
	}
	e.Leases = append(e.Leases, lease)
	e.AddRow(event.VaultAccessed, map[string]any{"secrets": lease.Names()})
	if e.guard != nil {
		e.guard.AddLease(lease)
	} else {
		e.Releases = append(e.Releases, lease.Close)
	}
	return nil
}
