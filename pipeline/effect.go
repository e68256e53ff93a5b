package pipeline

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Effect is anything that is done for a caller, and comes to a T: a [Request], [Process], [Install], [NewSession], [ChangeSession], [PauseSession],
// [SnapshotSession], [EndSession], [NewContext], [EndContext], [WriteFile], [ChangeFile], [WriteDirectory], [CopyFiles],
// [KeepFiles], [DialPort], [Bridge], [NewLimits], [Interrupt], [Fetch], [Search], [Browse],
// [HostCommand], [HostRead], [HostWrite], [HostList], [HostCopy] or [Denial],
// or a call of a tool by code of a session. Do is the only way to have it.
type Effect[T any] interface {
	// subject returns what rows and the result say of the effect from its beginning.
	subject() subject
	// plan decides whether the effect may happen, and how. It may ask a person, and does nothing else.
	plan(ctx context.Context, r *run) (action[T], error)
}

// None is what an effect comes to that has nothing to tell beside its outcome.
type None struct{}

// subject is what an effect is about.
type subject struct {
	id                                         string // a ULID; "" makes one
	name, namespace, session, language, client string
	code                                       []byte // of a program
	files                                      int    // that come with the code
	facts                                      facts  // what its rows say beside these
}

// about returns the subject of an effect on a session.
func about(name, namespace, session string) subject {
	return subject{name: name, namespace: namespace, session: session}
}

// action is an effect that may happen. Do calls its methods in this order; an error of one ends it, and is in the log.
type action[T any] interface {
	// acquire waits for the action's turn, and for what it needs. What it acquires is given back by r.releases.
	acquire(context.Context) error
	// start records that the action is about to happen, before it does.
	start(context.Context) error
	// perform has it happen.
	perform(context.Context) (T, error)
	// seal redacts and signs what came of it, and notes the rows of its end, also where its context has ended.
	seal(context.Context) error
	// settle finishes the result, when its rows are durable, or with the error why they are not.
	settle(context.Context, error)
}

// Do has one effect. A program that fails is a result without an error. An error is always an *Error: nothing was done, or what was
// done may not be told; the result then holds the request's id and the reason, and nothing of the program. When ctx
// ends, a program is killed, and the result says so.
func Do[T any](ctx context.Context, p *Pipeline, e Effect[T]) (T, Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := p.begin(e.subject())
	defer p.under.enter(r, cancel)()
	defer r.release()
	answer, act, err := perform(ctx, r, e)
	if err != nil {
		res, err := r.stop(ctx, err)
		return answer, res, err
	}
	res, err := r.end(ctx, act)
	if err != nil {
		answer = *new(T)
	}
	return answer, res, err
}

// perform takes an effect through the stages before its end.
func perform[T any](ctx context.Context, r *run, e Effect[T]) (none T, _ sealer, _ error) {
	act, err := e.plan(ctx, r)
	if err != nil {
		return none, nil, err
	}
	if err := act.acquire(ctx); err != nil {
		return none, nil, err
	}
	if err := act.start(ctx); err != nil {
		return none, nil, err
	}
	answer, err := act.perform(ctx)
	if err != nil {
		return none, nil, err
	}
	return answer, act, nil
}

// sealer is the part of an action that comes when it has happened.
type sealer interface {
	seal(context.Context) error
	settle(context.Context, error)
}

// end makes the end of an action durable, and only then hands its result out.
func (r *run) end(ctx context.Context, act sealer) (Outcome, error) {
	err := act.seal(ctx)
	ctx, cancel := outlast(ctx)
	defer cancel()
	if err == nil && len(r.entries) > 0 {
		err = r.flush(ctx)
	}
	if err != nil && r.late { // it is done, whatever the log has
		err = nil
		r.warnLate()
	}
	act.settle(ctx, err)
	if err != nil {
		return r.withhold(ctx, err)
	}
	if r.started {
		r.p.counters.add(r.res)
	}
	return r.res, nil
}

// task is the action of an effect that has no sandbox of its own, or one that its caller never sees: what the server does itself, and what a
// session's sandbox runs beside its interpreters.
type task[T any] struct {
	*run
	out   *programEnd     // of a program that do has run, nil without one
	stage string          // whose errors its errors are
	slots backends.Limits // whose CPU is what it takes of the queue; zero does not wait
	wall  time.Duration   // of do; 0 is as long as its caller waits
	do    func(context.Context) (T, error)
}

func (t *task[T]) acquire(ctx context.Context) error {
	if t.slots.CPU == 0 {
		return nil
	}
	leave, err := t.enterQueue(ctx, t.slots)
	if err == nil {
		t.releases = append(t.releases, leave)
	}
	return err
}

func (t *task[T]) start(ctx context.Context) error { return t.recordStart(ctx) }

// perform does what is asked for within its time.
func (t *task[T]) perform(ctx context.Context) (none T, _ error) {
	defer t.time(&t.res.Timings.Exec)()
	t.live.state("running")
	if t.wall > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.wall, &Error{Stage: t.stage, Reason: t.res.Name + " timed out after " + formatNumber(t.wall.Seconds()) + " s",
			Remedy: Remedy{"give it more with ", remedy.Timeout.With("SECONDS"), ", where it takes that, or try again later"}})
		defer cancel()
	}
	began := time.Now()
	answer, err := t.do(ctx)
	if t.out == nil { // or it is known better
		t.res.WallMS = milliseconds(time.Since(began))
	}
	if err != nil {
		failed := broke(t.stage, err)
		if ctx.Err() != nil && failed.Layer == "" { // a layer that did not hold is told whatever else has happened
			failed = broke(t.stage, context.Cause(ctx))
		}
		return none, failed
	}
	t.res.Ended = cmp.Or(t.res.Ended, backends.EndedOK)
	return answer, nil
}

func (t *task[T]) seal(ctx context.Context) error {
	if !t.started {
		return nil
	}
	if t.out != nil {
		t.res.Stdout, t.res.StdoutCut = t.out.stdout.contents()
		t.res.Stderr, t.res.StderrCut = t.out.stderr.contents()
	}
	t.scrub()
	if t.out != nil {
		t.captureOutput()
	}
	return t.signOutcome(ctx, t.out, nil)
}

func (t *task[T]) settle(ctx context.Context, unrecorded error) {
	t.res.Timings.Total = time.Since(t.began).Microseconds()
	if t.out != nil && unrecorded == nil {
		t.storeResult(ctx)
	}
}

// change is a task that takes no time: one row says that it was made, before it takes effect.
type change[T any] struct {
	task[T]
	row   string // "" is none: that of a session is written when it stands, or is gone
	facts facts
	takes bool // a right away, or the end of what runs: it takes effect before its row is written, and also where that can't be
}

func (c *change[T]) start(ctx context.Context) error {
	if c.row == "" {
		return nil
	}
	c.note(c.row, c.facts)
	if c.late = c.takes; c.takes {
		return nil
	}
	return c.flush(ctx)
}

// planAction plans a task outside of any sandbox: a command on the host, a file of the host, a page of the web. Start and end are rows like
// those of a run, which say in one line what it is (the command, the path, the address) and more, and a receipt says what came of it. What
// is told is free of every secret of the namespace: nobody leased one, and yet the outside may know them.
//
// check refuses what policy forbids. It may ask a person, and comes before the place in the queue and the first row. What t does says in
// r.res how it ended, which is "ok" if it says nothing, and in r.facts what the last row is to hold. It cleans all text of the outside that
// it keeps, by r.clean, before it cuts it.
func planAction[T any](ctx context.Context, r *run, what string, more facts, check func(context.Context) error, t task[T]) (action[T], error) {
	if err := r.knowAll(ctx); err != nil {
		return nil, err
	}
	r.factsOf(what, more)
	if err := check(ctx); err != nil {
		return nil, broke(t.stage, err)
	}
	t.run, t.slots = r, backends.Limits{CPU: 1}
	return &t, nil
}

// factsOf has the rows say what an action is.
func (r *run) factsOf(what string, more facts) {
	session := r.res.Session
	r.facts = facts{"tool": r.res.Name, "what": long(what)}
	r.facts.add("session", session, len(session))
	r.asker("")
	maps.Copy(r.facts, more)
}

// knowAll has the run know every secret of its namespace.
func (r *run) knowAll(ctx context.Context) error {
	if err := checkRequest(Request{ID: r.res.ID, Namespace: r.res.Namespace}); err != nil {
		return err
	}
	lease, err := r.p.cfg.Vault.All(ctx, r.res.Namespace)
	if err != nil {
		return noRedaction("what this tells", err)
	}
	r.leases = vault.Leases{lease}
	r.releases = append(r.releases, lease.Close)
	return nil
}

// Denial is an action that policy forbids, such as a command on the host. As an effect it is refused, with what policy says, and the log has that.
type Denial struct {
	Tool, Namespace string
	What            string // in one line: the command, the path, the address
	Stage           string // "" is StageValidate
	Reason          string
	Remedy          Remedy
}

func (d Denial) subject() subject { return about(d.Tool, d.Namespace, "") }

func (d Denial) plan(ctx context.Context, r *run) (action[None], error) {
	if err := r.knowAll(ctx); err != nil {
		return nil, err
	}
	r.factsOf(d.What, nil)
	return nil, refuse(cmp.Or(d.Stage, StageValidate), d.Reason, d.Remedy...)
}
