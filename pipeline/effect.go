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

// SecretNames returns the names of a namespace's secrets, at most 50; nil if there are none or they can't be listed.
func (p *Pipeline) SecretNames(ctx context.Context, namespace string) []string {
	const limit = 50
	names, err := p.Config.Vault.Names(ctx, NamespaceOrDefault(namespace))
	if err != nil {
		return nil
	}
	return names[:min(len(names), limit)]
}

// Effect is an action for a caller that returns a T, such as a run.Request, a session.New or a host.Exec. Only Do
// performs it.
type Effect[T any] interface {
	// Subject returns the facts that rows and the result contain from the beginning.
	Subject() Subject
	// Plan decides whether the effect may happen, and how. It may ask a person, and changes nothing.
	Plan(ctx context.Context, r *Run) (Action[T], error)
}

// NoAnswer is the answer of an effect that has only an outcome.
type NoAnswer struct{}

// Subject describes an effect for its rows and its result.
type Subject struct {
	ID                                         string // a ULID; "" generates one
	Name, Namespace, Session, Language, Client string
	Code                                       []byte // of a program
	Files                                      int    // number of files that come with the code
	Facts                                      Facts  // additional facts for its rows
}

// About returns the subject of an effect on a session.
func About(name, namespace, session string) Subject {
	return Subject{Name: name, Namespace: namespace, Session: session}
}

// Action is an effect that passed its plan. Do calls its methods in this order; an error of one ends the action and
// is logged.
type Action[T any] interface {
	// Acquire waits for a slot, and acquires resources. Run.Releases give them back.
	Acquire(context.Context) error
	// Start records that the action is about to happen, before it does.
	Start(context.Context) error
	// Perform performs the action.
	Perform(context.Context) (T, error)
	// Seal redacts and signs the result, and adds the rows of the end, even if the context has ended.
	Seal(context.Context) error
	// Finish completes the result after its rows are durable, or receives the error if they are not.
	Finish(context.Context, error)
}

// Do performs one effect. A program that fails is a result without an error. An error is always an *Error: nothing
// was done, or the result must not be disclosed; the outcome then has the request's id and the reason, and nothing of
// the program. If ctx ends, the program is killed, and the result says so.
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

// perform runs the stages of an effect before its end.
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

// finisher has the methods of an action that follow Perform.
type finisher interface {
	Seal(context.Context) error
	Finish(context.Context, error)
}

// finishAction makes the end of an action durable before it returns the result.
func (r *Run) finishAction(ctx context.Context, act finisher) (Outcome, error) {
	err := act.Seal(ctx)
	ctx, cancel := WithFinishTimeout(ctx)
	defer cancel()
	if err == nil && len(r.entries) > 0 {
		err = r.FlushRows(ctx)
	}
	if err != nil && r.recordLate { // the action took effect, recorded or not
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

// Task is the action of an effect without a visible sandbox of its own: work of the server itself, or programs in a
// session's sandbox beside its interpreters.
type Task[T any] struct {
	*Run
	Out   *ProgramEnd     // end of the program that Do ran, nil without a program
	Stage string          // stage of its errors
	Slots backends.Limits // CPU determines its slots of the queue; zero does not queue
	Wall  time.Duration   // time limit of Do; 0 is unlimited while the caller waits
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

// Perform calls Do within its time limit.
func (t *Task[T]) Perform(ctx context.Context) (none T, _ error) {
	defer t.TimeStage(&t.Outcome.Timings.Exec)()
	t.Active.SetState("running")
	if t.Wall > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.Wall, &Error{Stage: t.Stage, Reason: t.Outcome.Name + " timed out after " +
			FormatNumber(t.Wall.Seconds()) + " s",
			Remedy: Remedy{"raise the limit with ", remedy.Timeout.With("SECONDS"), " if it has that option, or try again later"}})
		defer cancel()
	}
	began := time.Now()
	answer, err := t.Do(ctx)
	if t.Out == nil { // a program measures its own time
		t.Outcome.WallMS = Milliseconds(time.Since(began))
	}
	if err != nil {
		failed := WrapError(t.Stage, err)
		if ctx.Err() != nil && failed.Layer == "" { // a failed layer takes precedence
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

// Change is an instant task: one row records it before it takes effect.
type Change[T any] struct {
	Task[T]
	RowKind string // "" writes no row: a session writes its own once it is created or gone
	Facts   Facts
	Revokes bool // it revokes a right or ends a run: it takes effect before its row is written, even if that fails
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

// PlanAction plans a task outside of any sandbox: a command on the host, a file of the host, a web page. Start and
// end are rows like those of a run; they contain a one-line description (what: the command, the path, the address)
// and more, and a receipt covers the result. All secrets of the namespace are redacted from the result: none is
// leased, but the outside may know them.
//
// check refuses the task if policy forbids it. It may ask a person, and runs before the queue and the first row. t
// sets r.Outcome to its result, which is "ok" by default, and r.Facts to the facts of the last row. It cleans all
// outside text with r.Clean before it cuts it.
func PlanAction[T any](ctx context.Context, r *Run, what string, more Facts, check func(context.Context) error, t Task[T]) (Action[T],
	error) {
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

// setActionFacts sets the facts that describe an action in its rows.
func (r *Run) setActionFacts(what string, more Facts) {
	session := r.Outcome.Session
	r.Facts = Facts{"tool": r.Outcome.Name, "what": LongText(what)}
	r.Facts.AddIf("session", session, len(session))
	r.AddCallerFacts("")
	maps.Copy(r.Facts, more)
}

// leaseAllSecrets leases all secrets of the namespace for redaction.
func (r *Run) leaseAllSecrets(ctx context.Context) error {
	if err := CheckIDAndNamespace(r.Outcome.ID, r.Outcome.Namespace); err != nil {
		return err
	}
	lease, err := r.Pipeline.Config.Vault.LeaseAll(ctx, r.Outcome.Namespace)
	if err != nil {
		return RedactionError("the result", err)
	}
	r.Leases = vault.Leases{lease}
	r.Releases = append(r.Releases, lease.Close)
	return nil
}

// Denial is an action that policy forbids, such as a command on the host. As an effect it is refused and logged with
// its reason.
type Denial struct {
	Tool, Namespace string
	What            string // one line: the command, the path, the address
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

// CheckIDAndNamespace refuses an invalid id or namespace.
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
