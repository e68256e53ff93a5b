package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// SecretNames returns the names of a namespace's secrets, at most 50; nil where there are none or they can't be listed.
func (p *Pipeline) SecretNames(ctx context.Context, namespace string) []string {
	const limit = 50
	names, err := p.Config.Vault.Names(ctx, NamespaceOrDefault(namespace))
	if err != nil {
		return nil
	}
	return names[:min(len(names), limit)]
}

// Effect is anything that is done for a caller, and comes to a T, such as a run.Request, a session.New or a host.Exec.
// Do is the only way to have it.
type Effect[T any] interface {
	// Subject returns what rows and the result say of the effect from its beginning.
	Subject() Subject
	// Plan decides whether the effect may happen, and how. It may ask a person, and does nothing else.
	Plan(ctx context.Context, r *Run) (Action[T], error)
}

// NoAnswer is what an effect comes to that has nothing to tell beside its outcome.
type NoAnswer struct{}

// Subject is what an effect is about.
type Subject struct {
	ID                                         string // a ULID; "" makes one
	Name, Namespace, Session, Language, Client string
	Code                                       []byte // of a program
	Files                                      int    // that come with the code
	Facts                                      Facts  // what its rows say beside these
}

// About returns the subject of an effect on a session.
func About(name, namespace, session string) Subject {
	return Subject{Name: name, Namespace: namespace, Session: session}
}

// Action is an effect that may happen. Do calls its methods in this order; an error of one ends it, and is in the log.
type Action[T any] interface {
	// Acquire waits for the action's turn, and for what it needs. What it acquires is given back by Run.Releases.
	Acquire(context.Context) error
	// Start records that the action is about to happen, before it does.
	Start(context.Context) error
	// Perform has it happen.
	Perform(context.Context) (T, error)
	// Seal redacts and signs what came of it, and notes the rows of its end, also where its context has ended.
	Seal(context.Context) error
	// Finish finishes the result, when its rows are durable, or with the error why they are not.
	Finish(context.Context, error)
}

// Do has one effect. A program that fails is a result without an error. An error is always an *Error: nothing was done,
// or what was done may not be told; the result then holds the request's id and the reason, and nothing of the program.
// When ctx ends, a program is killed, and the result says so.
func Do[T any](ctx context.Context, p *Pipeline, e Effect[T]) (T, Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := p.NewRun(e.Subject())
	defer p.Active.addEffect(r, cancel)()
	defer r.Release()
	answer, act, err := perform(ctx, r, e)
	if err != nil {
		res, err := r.refuse(ctx, err)
		return answer, res, err
	}
	res, err := r.finishAction(ctx, act)
	if err != nil {
		answer = *new(T)
	}
	return answer, res, err
}

// perform takes an effect through the stages before its end.
func perform[T any](ctx context.Context, r *Run, e Effect[T]) (none T, _ finisher, _ error) {
	act, err := e.Plan(ctx, r)
	if err != nil {
		return none, nil, err
	}
	if err := act.Acquire(ctx); err != nil {
		return none, nil, err
	}
	if err := act.Start(ctx); err != nil {
		return none, nil, err
	}
	answer, err := act.Perform(ctx)
	if err != nil {
		return none, nil, err
	}
	return answer, act, nil
}

// finisher is the part of an action that comes when it has happened.
type finisher interface {
	Seal(context.Context) error
	Finish(context.Context, error)
}

// finishAction makes the end of an action durable, and only then hands its result out.
func (r *Run) finishAction(ctx context.Context, act finisher) (Outcome, error) {
	err := act.Seal(ctx)
	ctx, cancel := WithFinishTimeout(ctx)
	defer cancel()
	if err == nil && len(r.entries) > 0 {
		err = r.FlushRows(ctx)
	}
	if err != nil && r.recordLate { // it is done, whatever the log has
		err = nil
		r.WarnLateRow()
	}
	act.Finish(ctx, err)
	if err != nil {
		return r.withhold(ctx, err)
	}
	if r.started {
		r.Pipeline.Counters.countOutcome(r.Outcome)
	}
	return r.Outcome, nil
}

// Task is the action of an effect that has no sandbox of its own, or one that its caller never sees: what the server
// does itself, and what a session's sandbox runs beside its interpreters.
type Task[T any] struct {
	*Run
	Out   *ProgramEnd     // of a program that do has run, nil without one
	Stage string          // whose errors its errors are
	Slots backends.Limits // whose CPU is what it takes of the queue; zero does not wait
	Wall  time.Duration   // of do; 0 is as long as its caller waits
	Do    func(context.Context) (T, error)
}

func (t *Task[T]) Acquire(ctx context.Context) error {
	if t.Slots.CPU == 0 {
		return nil
	}
	leave, err := t.AcquireSlots(ctx, t.Slots)
	if err == nil {
		t.Releases = append(t.Releases, leave)
	}
	return err
}

func (t *Task[T]) Start(ctx context.Context) error { return t.RecordStart(ctx) }

// Perform does what is asked for within its time.
func (t *Task[T]) Perform(ctx context.Context) (none T, _ error) {
	defer t.TimeStage(&t.Outcome.Timings.Exec)()
	t.Active.SetState("running")
	if t.Wall > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.Wall, &Error{Stage: t.Stage, Reason: t.Outcome.Name + " timed out after " + FormatNumber(t.Wall.Seconds()) + " s",
			Remedy: Remedy{"give it more with ", remedy.Timeout.With("SECONDS"), ", where it takes that, or try again later"}})
		defer cancel()
	}
	began := time.Now()
	answer, err := t.Do(ctx)
	if t.Out == nil { // or it is known better
		t.Outcome.WallMS = Milliseconds(time.Since(began))
	}
	if err != nil {
		failed := WrapError(t.Stage, err)
		if ctx.Err() != nil && failed.Layer == "" { // a layer that did not hold is told whatever else has happened
			failed = WrapError(t.Stage, context.Cause(ctx))
		}
		return none, failed
	}
	t.Outcome.Ended = cmp.Or(t.Outcome.Ended, backends.EndedOK)
	return answer, nil
}

func (t *Task[T]) Seal(ctx context.Context) error {
	if !t.started {
		return nil
	}
	if t.Out != nil {
		t.Outcome.Stdout, t.Outcome.StdoutCut = t.Out.Stdout.Contents()
		t.Outcome.Stderr, t.Outcome.StderrCut = t.Out.Stderr.Contents()
	}
	t.Scrub()
	if t.Out != nil {
		t.CaptureOutput()
	}
	return t.SignOutcome(ctx, t.Out, nil)
}

func (t *Task[T]) Finish(ctx context.Context, unrecorded error) {
	t.Outcome.Timings.Total = time.Since(t.Began).Microseconds()
	if t.Out != nil && unrecorded == nil {
		t.StoreResult(ctx)
	}
}

// Change is a task that takes no time: one row says that it was made, before it takes effect.
type Change[T any] struct {
	Task[T]
	RowKind string // "" is none: that of a session is written when it stands, or is gone
	Facts   Facts
	Revokes bool // a right away, or the end of what runs: it takes effect before its row is written, and also where that can't be
}

func (c *Change[T]) Start(ctx context.Context) error {
	if c.RowKind == "" {
		return nil
	}
	c.AddRow(c.RowKind, c.Facts)
	if c.recordLate = c.Revokes; c.Revokes {
		return nil
	}
	return c.FlushRows(ctx)
}

// PlanAction plans a task outside of any sandbox: a command on the host, a file of the host, a page of the web. Start
// and end are rows like those of a run, which say in one line what it is (the command, the path, the address) and more,
// and a receipt says what came of it. What is told is free of every secret of the namespace: nobody leased one, and yet
// the outside may know them.
//
// check refuses what policy forbids. It may ask a person, and comes before the place in the queue and the first row.
// What t does says in r.Outcome how it ended, which is "ok" if it says nothing, and in r.Facts what the last row is to
// hold. It cleans all text of the outside that it keeps, by r.Clean, before it cuts it.
func PlanAction[T any](ctx context.Context, r *Run, what string, more Facts, check func(context.Context) error, t Task[T]) (Action[T], error) {
	if err := r.leaseAllSecrets(ctx); err != nil {
		return nil, err
	}
	r.setActionFacts(what, more)
	if err := check(ctx); err != nil {
		return nil, WrapError(t.Stage, err)
	}
	t.Run, t.Slots = r, backends.Limits{CPU: 1}
	return &t, nil
}

// setActionFacts has the rows say what an action is.
func (r *Run) setActionFacts(what string, more Facts) {
	session := r.Outcome.Session
	r.Facts = Facts{"tool": r.Outcome.Name, "what": LongText(what)}
	r.Facts.AddIf("session", session, len(session))
	r.AddCallerFacts("")
	maps.Copy(r.Facts, more)
}

// leaseAllSecrets has the run know every secret of its namespace.
func (r *Run) leaseAllSecrets(ctx context.Context) error {
	if err := CheckIDAndNamespace(r.Outcome.ID, r.Outcome.Namespace); err != nil {
		return err
	}
	lease, err := r.Pipeline.Config.Vault.LeaseAll(ctx, r.Outcome.Namespace)
	if err != nil {
		return RedactionError("what this tells", err)
	}
	r.Leases = vault.Leases{lease}
	r.Releases = append(r.Releases, lease.Close)
	return nil
}

// Denial is an action that policy forbids, such as a command on the host. As an effect it is refused, with what policy
// says, and the log has that.
type Denial struct {
	Tool, Namespace string
	What            string // in one line: the command, the path, the address
	Stage           string // "" is StageValidate
	Reason          string
	Remedy          Remedy
}

func (d Denial) Subject() Subject { return About(d.Tool, d.Namespace, "") }

func (d Denial) Plan(ctx context.Context, r *Run) (Action[NoAnswer], error) {
	if err := r.leaseAllSecrets(ctx); err != nil {
		return nil, err
	}
	r.setActionFacts(d.What, nil)
	return nil, Refuse(cmp.Or(d.Stage, StageValidate), d.Reason, d.Remedy...)
}

var validName = lazy.Regexp(`^[A-Za-z0-9._-]{1,64}$`)

// CheckIDAndNamespace refuses an id or a namespace that is none.
func CheckIDAndNamespace(id, namespace string) error {
	if _, err := ulid.ParseStrict(id); err != nil {
		return Refuse(StageValidate, fmt.Sprintf("the id %q is not a ULID", id), "leave it out")
	}
	if !validName().MatchString(namespace) {
		return Refuse(StageValidate, fmt.Sprintf("%q is not a namespace", namespace),
			"use up to 64 letters, digits, dots, dashes and underscores")
	}
	return nil
}
