package outlet

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// decide implements egress.Config.Decide: the policy, then what people have approved, then a person.
func (o *Outlet) decide(ctx context.Context, name string, port int) egress.Decision {
	t := o.now()
	policy := o.cfg.Policy
	if t.Policy != nil {
		policy = *t.Policy
	}
	d := of(policy, name, port)
	if _, denied := policy.Denied(name, port); d.Allowed || denied || t.Closed { // denied is also what is no name
		return d
	}
	if granted := of(o.approved(t), name, port); granted.Allowed {
		granted.Reason = "a person approved " + strings.TrimPrefix(granted.Reason, "allowed by ")
		return granted
	}
	if !o.cfg.Ask || o.cfg.Approvals == nil {
		return d
	}
	if port == 0 {
		d.Allowed, d.Ask, d.Reason = true, "", "a person is asked when it is connected to"
		return d
	}
	return o.ask(ctx, t, d)
}

// of asks a policy about a port, or about any for 0.
func of(p egress.Policy, name string, port int) egress.Decision {
	if port == 0 {
		return p.Lookup(name)
	}
	return p.Decide(name, port)
}

// approved is the policy of what people have approved for a turn.
func (o *Outlet) approved(t Turn) egress.Policy {
	if o.cfg.Approvals == nil {
		return egress.Policy{}
	}
	var patterns []string
	for _, g := range o.cfg.Approvals.Held(approval.Egress, o.question(t)) {
		patterns = append(patterns, g.Question.What)
	}
	if len(patterns) == 0 {
		return egress.Policy{}
	}
	p, err := egress.NewPolicy(patterns, nil)
	if err != nil { // nobody can ask for what is no pattern
		return egress.Policy{}
	}
	return p
}

func (o *Outlet) question(t Turn) approval.Question {
	return approval.Question{Kind: approval.Egress, Namespace: o.cfg.Namespace, Session: o.cfg.Session, Run: t.Run, CodeSHA256: t.Code}
}

// ask waits for a person. The connection waits with it, and the program's time goes on.
func (o *Outlet) ask(ctx context.Context, t Turn, d egress.Decision) egress.Decision {
	q := o.question(t)
	q.CodeSHA256 = "" // whoever is asked about a name is not asked about the code
	q.What = d.Ask
	q.Reason = "a running program connects to it"
	a, err := o.cfg.Approvals.Ask(ctx, q, t.Ask)
	switch {
	case err != nil && ctx.Err() == nil:
		d.Reason = fmt.Sprintf("a person can't be asked about %s: %v", d.Name, err)
	case err != nil:
		d.Reason = fmt.Sprintf("nobody had answered whether %s may be reached when the program gave up: ask for the domain %s", d.Name, q.What)
	case a.Allowed:
		d.Allowed, d.Ask = true, ""
		d.Reason = fmt.Sprintf("approved by %s until %s", by(a), a.Until.UTC().Format(time.RFC3339))
	default:
		d.Ask, d.Reason = "", fmt.Sprintf("denied by %s", by(a))
		if a.Reason != "" {
			d.Reason += ": " + a.Reason
		}
	}
	return d
}

func itoa(n int) string { return strconv.Itoa(n) }

// by says who answered, and how.
func by(a approval.Answer) string {
	if a.User != "" {
		return a.User + " (" + a.By.String() + ")"
	}
	return a.By.String()
}
