package pipeline

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// action is an effect of the server itself, outside of any sandbox, on behalf of a caller: a command on the
// host, a file of the host, a page of the web.
type action struct {
	ID, Namespace, Session string
	Tool                   string // as the log names it
	What                   string // in one line: the command, the path, the address
	Facts                  facts  // more that each row says
	Stage                  string // whose errors its errors are
	Wall                   time.Duration

	// Check refuses what policy forbids. It may ask a person, and comes before the action's place in the queue and its first row.
	Check func(ctx context.Context, r *run) error
	// Do is the effect. It says in r.res how it ended, which is "ok" if it says nothing, and in r.facts what the last
	// row is to hold. It cleans all text of the outside that it keeps, by r.clean, before it cuts it.
	Do func(ctx context.Context, r *run) error
}

// runAction runs one action. Start and end are rows like those of a run, and a receipt says what came of it. What is told
// is free of every secret of the namespace: nobody leased one, and yet the outside may know them.
func (p *Pipeline) runAction(ctx context.Context, e action) (Result, error) {
	r := p.begin(&Request{ID: e.ID, Namespace: e.Namespace, Session: e.Session, Name: e.Tool, Code: []byte{}})
	defer p.forget(r.res.ID)
	lease, err := r.knowAll(ctx)
	if err != nil {
		return r.stop(ctx, err)
	}
	defer lease.Close() // after stop, whose words it cleans
	if err := r.runAction(ctx, e); err != nil {
		return r.stop(ctx, err)
	}
	r.res.Timings.Total = time.Since(r.began).Microseconds()
	p.counters.add(r.res)
	return r.res, nil
}

// knowAll has the run know every secret of its namespace. Whoever gets the lease closes it.
func (r *run) knowAll(ctx context.Context) (*vault.Lease, error) {
	if err := checkRequest(Request{ID: r.res.ID, Namespace: r.res.Namespace}); err != nil {
		return nil, err
	}
	lease, err := r.p.cfg.Vault.All(ctx, r.res.Namespace)
	if err != nil {
		return nil, noRedaction("what this tells", err)
	}
	r.leases = vault.Leases{lease}
	return lease, nil
}

// runAction checks, records and carries out an action, and records its end.
func (r *run) runAction(ctx context.Context, e action) error {
	r.facts = facts{"tool": e.Tool, "what": long(e.What)}
	r.facts.add("session", e.Session, len(e.Session))
	r.asker("")
	maps.Copy(r.facts, e.Facts)
	if err := e.Check(ctx, r); err != nil {
		return broke(e.Stage, err)
	}
	leave, err := r.enterQueue(ctx, backends.Limits{CPU: 1})
	if err != nil {
		return err
	}
	defer leave()
	if err := r.recordStart(ctx); err != nil {
		return err
	}
	if err := r.effect(ctx, e); err != nil {
		return broke(e.Stage, err)
	}
	ctx, stop := outlast(ctx)
	defer stop()
	if err := r.noteOutcome(ctx, nil, nil); err != nil {
		return err
	}
	return r.flush(ctx)
}

// effect does what is asked for within its time.
func (r *run) effect(ctx context.Context, e action) error {
	defer r.time(&r.res.Timings.Exec)()
	if e.Wall > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.Wall, &Error{Stage: e.Stage, Reason: fmt.Sprintf("%s timed out after %s s", e.Tool, formatNumber(e.Wall.Seconds())),
			Remedy: Remedy{"give it more with ", remedy.Timeout.With("SECONDS"), ", where it takes that, or try again later"}})
		defer cancel()
	}
	began := time.Now()
	err := e.Do(ctx, r)
	r.res.WallMS = milliseconds(time.Since(began))
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.res.Ended == "" {
		r.res.Ended = backends.EndedOK
	}
	return err
}

// Denial is an action that policy forbids, such as a command on the host.
type Denial struct {
	Tool, Namespace string
	What            string // in one line: the command, the path, the address
}

// Deny refuses an action for the reason that policy gives, and puts that into the audit log. It returns
// an *Error.
func (p *Pipeline) Deny(ctx context.Context, w Denial, reason, remedy string) error {
	r := p.begin(&Request{Namespace: w.Namespace, Name: w.Tool, Code: []byte{}})
	r.facts = facts{"tool": w.Tool, "what": long(w.What)}
	r.asker("")
	_, err := r.stop(ctx, refuse(StageValidate, reason, remedy))
	return err
}
