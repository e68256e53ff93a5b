package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/signer"
	"github.com/sandboxmcp/sandboxmcp/validate"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// A run is one request being processed: the facts for its rows, and its result so far.
type run struct {
	p     *Pipeline
	began time.Time
	res   Result
	code  string // SHA-256 of its code in hex
	own   int    // files that come with its code: the script, none of a command
	facts facts  // what every row about the run says
	redactor
	entries  []audit.Entry         // not yet in the log
	started  bool                  // the log has the run's start
	envelope signer.Envelope       // the run's receipt, once it has ended
	outputs  [2]*stream            // stdout and stderr, once the program runs
	before   func() backends.Usage // of its session's sandbox, if it has one
	measure  func()                // waits for what is still being measured of it, for the result; nil if nothing is
	lost     int64                 // see backends.Usage: of this run
}

func (p *Pipeline) begin(q *Request) *run {
	if q.ID == "" {
		q.ID = NewID()
	}
	q.Namespace = orDefault(q.Namespace)
	language, own := q.Language, 1
	if len(q.Command) > 0 { // which is its own code, as one would type it
		q.Code, q.Name, language = []byte(host.Words(q.Command).String()), path.Base(q.Command[0]), validate.Command
		own = 0
	}
	r := &run{p: p, began: time.Now(), code: hash(q.Code), own: own, redactor: p.newRedactor(nil)}
	r.facts = q.facts(r.code)
	r.asker(q.Client)
	r.res = Result{ID: q.ID, Namespace: q.Namespace, Session: q.Session, Language: language, Name: q.Name, Artifacts: []signer.Artifact{},
		Egress: []Decision{}, Layers: []backends.Layer{}}
	return r
}

// newRedactor returns the redactor of a run with these leases.
func (p *Pipeline) newRedactor(leases vault.Leases) redactor {
	return redactor{leases, &unknown{policy: p.cfg.Unknown}}
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

// queued is a checked request that has its slots.
type queued struct {
	checked
	guard *session.Guard // the exclusive use of its session, nil without one
	leave func()
}

// queue acquires the run's session, if it has one, and then slots of the queue.
func (r *run) queue(ctx context.Context, c checked) (queued, error) {
	defer r.time(&r.res.Timings.Queue)()
	if c.session == nil {
		return r.enterQueue(ctx, c)
	}
	guard, err := c.session.Acquire(ctx)
	if err != nil {
		return queued{}, sessionError(StageQueue, err)
	}
	q, err := r.enterQueue(ctx, c)
	if err != nil {
		guard.Release()
		return q, err
	}
	leave := q.leave
	q.guard, q.leave = guard, func() { leave(); guard.Release() }
	return q, nil
}

func (r *run) enterQueue(ctx context.Context, c checked) (queued, error) {
	leave, err := r.p.cfg.Queue.Enter(ctx, c.Namespace, c.weight(), r.waits)
	if err != nil {
		return queued{}, r.queueError(err)
	}
	return queued{checked: c, leave: leave}, nil
}

// waits tells listeners that the run has to wait, and how many do.
func (r *run) waits(waiting int) {
	r.publish(event.QueueBackpressure, map[string]any{"waiting": waiting})
}

func (r *run) queueError(err error) error {
	if !errors.Is(err, ErrBusy) {
		return broke(StageQueue, err)
	}
	r.publish(event.QueueBackpressure, map[string]any{"busy": true})
	e := refuse(StageQueue, err.Error(), "try again later, or raise max_concurrent or max_queue in the configuration")
	e.err = err
	return e
}

// armed is a queued request with the secrets that it asked for.
type armed struct {
	queued
	leases vault.Leases // of a session: all that it ever had
}

// disarm wipes the secrets, unless a session goes on using them.
func (a armed) disarm() {
	if a.guard != nil {
		return
	}
	a.leases.Close()
}

func (r *run) vault(ctx context.Context, q queued) (armed, error) {
	defer r.time(&r.res.Timings.Vault)()
	a := armed{queued: q}
	want := q.Secrets
	if q.guard != nil {
		a.leases = q.guard.Leases()
		r.leases = a.leases
		want = slices.DeleteFunc(slices.Clone(want), a.leases.Has) // what a session has leased stays as it was
	}
	lease, err := r.p.cfg.Vault.Lease(ctx, q.Namespace, want)
	if err != nil && ctx.Err() == nil {
		remedy := ""
		if names := r.p.SecretNames(ctx, q.Namespace); names != nil && errors.Is(err, vault.ErrNotFound) {
			remedy = "name one that there is: " + strings.Join(names, ", ")
		}
		e := refuse(StageVault, err.Error(), remedy)
		e.err = err
		return armed{}, e
	}
	if err != nil {
		return armed{}, broke(StageVault, context.Cause(ctx))
	}
	for _, name := range lease.Unredacted() {
		r.warn("secret " + name + " is too short or too common to be taken out of the output")
	}
	if len(want) > 0 {
		a.leases = append(a.leases, lease)
		r.leases = a.leases
		r.note(event.VaultAccessed, map[string]any{"secrets": lease.Names()})
		if q.guard != nil {
			q.guard.AddLease(lease)
		}
	}
	return a, nil
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
