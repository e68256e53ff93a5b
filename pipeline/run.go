package pipeline

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
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

// A run is one request being processed: the facts for its rows, and its result so far.
type run struct {
	p      *Pipeline
	began  time.Time
	res    Outcome
	code   string // SHA-256 of its code in hex
	own    int    // files that come with its code: the script, none of a command
	client string // what the caller's program calls itself
	facts  facts  // what every row about the run says
	live   *live  // as others see it
	redactor
	entries  []audit.Entry   // not yet in the log
	releases []func()        // what gives back all that the run has acquired, the last first
	started  bool            // the log has the run's start
	late     bool            // it is done before its rows are written, whether they can be or not
	envelope signer.Envelope // the run's receipt, once it has ended
}

// complete fills in what the request leaves out. A command is its own code, as one would type it.
func (q Request) complete() Request {
	if len(q.Command) > 0 {
		q.Code, q.Name = []byte(host.Words(q.Command).String()), path.Base(q.Command[0])
	}
	if q.Stop == nil && q.Session == "" {
		q.Stop = &Stop{Grace: interruptGrace}
	}
	return q
}

func (q Request) subject() subject {
	q = q.complete()
	s := subject{id: q.ID, name: q.Name, namespace: q.Namespace, session: q.Session, language: q.Language, client: q.Client, code: q.Code, files: 1}
	if s.facts = q.facts(); len(q.Command) > 0 {
		s.language, s.files = validate.Command, 0
	}
	return s
}

// plan validates the request.
func (q Request) plan(ctx context.Context, r *run) (action[None], error) {
	e := &execution{run: r}
	r.releases = append(r.releases, func() { // nearly the last
		if q.Display != nil {
			r.keepTexts()
		}
		e.out.deliver(ctx)
	})
	q = q.complete()
	q.ID, q.Namespace = r.res.ID, r.res.Namespace
	var err error
	e.plan, err = r.validate(ctx, q)
	return e, err
}

// begin starts the bookkeeping of an effect.
func (p *Pipeline) begin(s subject) *run {
	id := cmp.Or(s.id, NewID())
	r := &run{p: p, began: time.Now(), code: hash(s.code), own: s.files, client: s.client, redactor: p.newRedactor(nil)}
	r.releases = append(r.releases, func() { p.forget(id) })
	r.facts = facts{"code_sha256": r.code, "code_bytes": len(s.code), "name": s.name, "language": s.language}
	r.facts.add("session", s.session, len(s.session))
	r.asker(s.client)
	maps.Copy(r.facts, s.facts)
	r.res = Outcome{ID: id, Namespace: orDefault(s.namespace), Session: s.session, Language: s.language, Name: s.name, Manifest: signer.Manifest{Artifacts: []signer.Artifact{}},
		Egress: []egress.Record{}, Layers: []backends.Layer{}}
	return r
}

// newRedactor returns the redactor of a run with these leases.
func (p *Pipeline) newRedactor(leases vault.Leases) redactor {
	return redactor{leases: leases, unknown: &unknown{policy: p.cfg.Unknown}}
}

// NewID returns a new id of a run. It goes without ulid.Make, whose randomness can be guessed: an id also names things on the host.
func NewID() string {
	return ulid.MustNew(ulid.Now(), rand.Reader).String()
}

// time adds how long it is until the returned function is called.
func (r *run) time(stage *int64) func() {
	start := time.Now()
	return func() { *stage += time.Since(start).Microseconds() }
}

// execution is a plan that is being carried out, with what it holds, in the order in which the stages acquire it.
type execution struct {
	*run
	plan
	guard       *session.Guard    // the exclusive use of its session, nil without one
	seat        *seat             // of code that can call tools, else nil
	outbound    *outbound.Session // nil has no network
	within      *egress.Policy    // what a cell has named
	view        packages.View     // the namespace's packages, as they are shown
	sandbox     backends.Sandbox
	before      func() backends.Usage // of its session's sandbox, if it has one
	command     backends.Command
	inputs      map[string]string // SHA-256 by name, of the files that we put into the workspace
	displayFile string            // the file in which the driver leaves displays; "" without one
	tree        *tree             // the host workspace before the program, if there is a writable one
	staged      *signer.Staged    // its artifacts, which get their names when its end is in the log
	out         *programEnd       // nil until the program was begun
	closed      chan error        // gets how it went that the sandbox was taken down
}

// release gives back what the run still holds.
func (r *run) release() {
	for _, give := range slices.Backward(r.releases) {
		give()
	}
}

// acquire takes the execution through the stages before its program.
func (e *execution) acquire(ctx context.Context) error {
	for _, stage := range []func(context.Context) error{e.queue, e.vault, e.egress} {
		if err := stage(ctx); err != nil {
			return err
		}
	}
	return nil
}

// queue acquires the run's session, if it has one, and then slots of the queue.
func (e *execution) queue(ctx context.Context) (err error) {
	defer e.time(&e.res.Timings.Queue)()
	if e.session != nil {
		if e.guard, err = e.session.AcquireContext(ctx, e.request.Context); err != nil {
			return sessionError(StageQueue, err)
		}
		e.releases = append(e.releases, e.guard.Release)
	}
	leave, err := e.enterQueue(ctx, e.limits.Limits)
	if err != nil {
		return err
	}
	if e.request.calls != nil && len(e.tools) > 0 {
		e.seat = &seat{run: e, lock: make(chan struct{}, 1), leave: leave}
		e.releases = append(e.releases, e.seat.close)
	} else {
		e.releases = append(e.releases, leave)
	}
	return nil
}

// enterQueue waits for the slots of a run with these limits, which leave gives back.
func (r *run) enterQueue(ctx context.Context, l backends.Limits) (leave func(), err error) {
	leave, err = r.p.cfg.Queue.Enter(ctx, r.res.Namespace, weight(l), r.waits)
	switch {
	case err == nil:
		return leave, nil
	case !errors.Is(err, ErrBusy):
		return nil, broke(StageQueue, err)
	}
	r.publish(event.QueueBackpressure, map[string]any{"busy": true})
	return nil, refuseFor(err, StageQueue, "try again later, or ", remedy.Raise.With("max_concurrent or max_queue"))
}

// waits tells listeners that the run waits in the queue.
func (r *run) waits(waiting int) {
	r.publish(event.QueueBackpressure, map[string]any{"waiting": waiting})
}

// vault leases the secrets that were asked for. A session keeps its leases; those of any other run end with it.
func (e *execution) vault(ctx context.Context) error {
	defer e.time(&e.res.Timings.Vault)()
	want := e.request.Secrets
	if e.guard != nil {
		e.leases, e.now = e.guard.Leases(), e.guard.Leases
		want = slices.DeleteFunc(slices.Clone(want), e.leases.Has) // what a session has leased stays as it was
	}
	lease, err := e.p.cfg.Vault.Lease(ctx, e.res.Namespace, want)
	if err != nil && ctx.Err() == nil {
		reason, do := remedy.Split(err)
		if names := e.p.SecretNames(ctx, e.res.Namespace); names != nil && errors.Is(err, vault.ErrNotFound) {
			do = append(Remedy{"name one that there is: ", strings.Join(names, ", "), "; or "}, do...)
		}
		no := refuse(StageVault, reason, do...)
		no.err = err
		return no
	}
	if err != nil {
		return broke(StageVault, context.Cause(ctx))
	}
	for _, name := range lease.Unredacted() {
		e.warn("secret " + name + " is too short or too common to be taken out of the output")
	}
	if len(want) == 0 {
		return nil
	}
	e.leases = append(e.leases, lease)
	e.note(event.VaultAccessed, map[string]any{"secrets": lease.Names()})
	if e.guard != nil {
		e.guard.AddLease(lease)
	} else {
		e.releases = append(e.releases, lease.Close)
	}
	return nil
}

// SecretNames returns the names of a namespace's secrets, at most 50; nil where there are none or they can't be listed.
func (p *Pipeline) SecretNames(ctx context.Context, namespace string) []string {
	const limit = 50
	names, err := p.cfg.Vault.Names(ctx, orDefault(namespace))
	if err != nil {
		return nil
	}
	return names[:min(len(names), limit)]
}
