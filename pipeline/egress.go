package pipeline

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outlet"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Egress is what the operator lets out. The zero value is nothing.
type Egress struct {
	Policy      egress.Policy  // what runs may reach that name nothing, and what callers may name
	Deny        []string       // patterns of Policy that deny: they hold for what people approve, too
	Ask         bool           // a person is asked about names that are neither allowed nor denied
	Dialer      *egress.Dialer // nil: the machine's resolver, and public addresses only
	Roots       *x509.CertPool // that names with bound secrets are verified with; nil are the machine's
	Idle        time.Duration  // after which a connection on which nothing moves is ended
	Connections int            // of one sandbox at once
}

// routed is an armed request for whose names egress has decided.
type routed struct {
	armed
	outlet *outlet.Outlet // nil: nothing leaves
	policy *egress.Policy // of a cell that names names of its own
}

// egress decides what the run may reach. Most may reach nothing, and get no way out at all.
func (r *run) egress(a armed) (routed, error) {
	defer r.time(&r.res.Timings.Egress)()
	policy, err := r.policy(a)
	if err != nil {
		return routed{}, err
	}
	routed := routed{armed: a}
	if a.claim != nil {
		routed.outlet = a.claim.Outlet()
		if a.Allow != nil {
			routed.policy = &policy
		}
		if routed.outlet == nil && !policy.Empty() && a.Allow != nil {
			return routed, refuse(StageEgress, "the session was created without a network", "create another session, with "+r.p.term("--allow", ""))
		}
	} else if routed.outlet, err = r.outlet(a.checked, policy, a.lent, ""); err != nil {
		return routed, err
	}
	if routed.outlet != nil && !routed.outlet.Opens() && slices.ContainsFunc(a.leases.Bound(), func(b vault.Bound) bool { return slices.Contains(a.Secrets, b.Name) }) {
		return routed, refuse(StageEgress, "the session is older than the first secret that was bound to names, and so trusts no certificates of ours", "create another session")
	}
	r.unreachable(a, policy, routed.outlet)
	return routed, nil
}

func (a armed) lent() vault.Leases { return a.leases }

// policy is what a request may reach. What it names must be within what the operator allows, or have
// been granted by a person.
func (r *run) policy(a armed) (egress.Policy, error) {
	e := r.p.cfg.Egress
	if a.Allow == nil {
		return e.Policy, nil
	}
	policy, err := egress.NewPolicy(a.Allow, e.Deny)
	if err != nil {
		return policy, refuse(StageEgress, err.Error(), "name hosts like example.com, *.example.com or example.com:5432")
	}
	if a.Typed || policy.Empty() {
		return policy, nil
	}
	granted, err := r.granted()
	if err != nil {
		return policy, err
	}
	missing := slices.DeleteFunc(slices.Clone(a.Allow), func(pattern string) bool { return e.Policy.Covers(pattern) || granted.Covers(pattern) })
	if len(missing) == 0 {
		return policy, nil
	}
	if e.Ask && r.p.cfg.Approvals != nil { // those are asked about when they are connected to
		held := slices.DeleteFunc(slices.Clone(a.Allow), func(pattern string) bool { return slices.Contains(missing, pattern) })
		return egress.NewPolicy(held, e.Deny)
	}
	for _, name := range missing {
		d := Decision{Name: r.clean(name), Ask: r.clean(name), Reason: "it is not among the domains that the operator allows, and nobody has approved it"}
		r.res.Egress = append(r.res.Egress, d)
		r.note(event.EgressDenied, facts{"name": d.Name, "reason": d.Reason})
	}
	return policy, refuse(StageEgress, fmt.Sprintf("%s may not be reached: the operator does not allow it, and nobody has approved it", strings.Join(missing, ", ")),
		r.p.term("have it added to egress.allow in the configuration", ""))
}

// granted is what people have approved for the run.
func (r *run) granted() (egress.Policy, error) {
	if r.p.cfg.Approvals == nil {
		return egress.Policy{}, nil
	}
	code, _ := r.facts["code_sha256"].(string)
	var patterns []string
	for _, g := range r.p.cfg.Approvals.Held(approval.Egress, approval.Question{Kind: approval.Egress, Namespace: r.res.Namespace, Session: r.res.Session, Run: r.res.ID, CodeSHA256: code}) {
		patterns = append(patterns, g.Question.What)
	}
	return egress.NewPolicy(patterns, nil)
}

// outlet makes the way out of a sandbox that needs one. Of a session it does when somebody could
// approve a name later: its doors can't be opened then.
func (r *run) outlet(c checked, policy egress.Policy, leases func() vault.Leases, session string) (*outlet.Outlet, error) {
	e := r.p.cfg.Egress
	granted, err := r.granted()
	if err != nil {
		return nil, err
	}
	later := session != "" && r.p.cfg.Approvals != nil
	ask := e.Ask && r.p.cfg.Approvals != nil
	switch nothing := policy.Empty() && granted.Empty() && !ask && !later; {
	case nothing, c.Allow != nil && len(c.Allow) == 0:
		return nil, nil
	case c.base == "landlock" && c.Allow == nil:
		return nil, nil // the default is not worth a refusal, and less is let out
	case c.base == "landlock":
		return nil, &Error{Stage: StageEgress, Layer: backends.LayerNet, Denied: true,
			Reason: "the profile landlock has no network of its own that could lead out", Remedy: "use the profile hardened"}
	}
	return outlet.New(outlet.Config{
		Policy: policy, Ask: ask, Approvals: r.p.cfg.Approvals, Dialer: e.Dialer, Roots: e.Roots, Idle: e.Idle, Connections: e.Connections,
		Namespace: r.res.Namespace, Session: session, Leases: leases, Later: later,
		Trusting: session != "" && r.p.cfg.Vault.MayBind() || len(leases().Bound()) > 0,
		Record:   r.p.recorder(r.res.ID, r.res.Namespace, func(s string) string { return leases().Redact(s) }),
	})
}

// unreachable warns of bound secrets that can't get to where they are bound.
func (r *run) unreachable(a armed, policy egress.Policy, way *outlet.Outlet) {
	if r.p.cfg.Egress.Ask && way != nil {
		return
	}
	for _, b := range a.leases.Bound() {
		if !slices.Contains(a.Secrets, b.Name) || slices.ContainsFunc(b.Hosts, policy.Covers) {
			continue
		}
		r.warn(fmt.Sprintf("secret %s is only ever sent to %s, which the run may not reach: allow it with %s",
			b.Name, strings.Join(b.Hosts, ", "), r.p.term("--allow", "")))
	}
}

// turn is what the outlet has to know of the run.
func (q routed) turn(r *run) outlet.Turn {
	return outlet.Turn{Run: r.res.ID, Code: hash(q.Code), Policy: q.policy, Closed: q.Allow != nil && len(q.Allow) == 0, Ask: q.Ask, Record: r.p.recorder(r.res.ID, r.res.Namespace, r.clean)}
}

// recorder writes decisions to the log as they are made.
func (p *Pipeline) recorder(id, namespace string, clean func(string) string) outlet.Record {
	return func(ctx context.Context, d egress.Decision) error {
		kind := event.EgressDenied
		if d.Allowed {
			kind = event.EgressApproved
		}
		data := facts{"name": clip(clean(d.Name), maxText), "reason": clip(clean(d.Reason), maxReason)}
		data.add("port", d.Port, d.Port)
		if d.Failed {
			data["failed"] = true
		}
		if _, err := p.cfg.Audit.Append(ctx, audit.Entry{Kind: kind, Run: id, Namespace: namespace, Data: data}); err != nil {
			return fmt.Errorf("it can't be written to the audit log: %w", err)
		}
		p.cfg.Bus.Publish(event.Event{Name: kind, Time: time.Now(), Run: id, Namespace: namespace, Data: data})
		return nil
	}
}

// leave ends the run's use of its way out, and lists what was decided.
func (r *run) leave(q routed) {
	for _, d := range q.outlet.Leave() {
		r.res.Egress = append(r.res.Egress, Decision{
			Name: r.clean(d.Name), Port: d.Port, Allowed: d.Allowed, Failed: d.Failed, Reason: r.clean(d.Reason), Ask: r.clean(d.Ask), Count: d.Count, Sent: d.Sent, Received: d.Received,
		})
	}
}

// forget drops what people have approved for a run or a session that has ended.
func (p *Pipeline) forget(id string) {
	if p.cfg.Approvals != nil {
		p.cfg.Approvals.Forget(id)
	}
}
