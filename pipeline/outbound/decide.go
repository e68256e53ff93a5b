package outbound

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// decide implements egress.Config.Decide: it checks the hosts that the run named, the policy, approvals, and finally
// asks a person.
func (o *Session) decide(ctx context.Context, name string, port int) egress.Decision {
	o.mu.Lock()
	t, within := o.scope, o.bounds.Within
	o.mu.Unlock()
	if t.Within != nil {
		within = t.Within
	}
	if within != nil {
		if d := decisionOf(*within, name, port); !d.Allowed {
			return d
		}
	}
	d := decisionOf(o.cfg.Policy, name, port)
	if _, denied := o.cfg.Policy.Denied(name, port); d.Allowed || denied { // an invalid name is denied too
		return d
	}
	if granted := decisionOf(Approved(o.cfg.Approvals, o.question(t)), name, port); granted.Allowed {
		granted.Reason = "a person approved " + strings.TrimPrefix(granted.Reason, "allowed by ")
		return granted
	}
	if !o.cfg.Ask || o.cfg.Approvals == nil {
		return d
	}
	if port == 0 {
		d.Allowed, d.Ask, d.Reason = true, "", "a person is asked at the first connection"
		return d
	}
	return o.askPerson(ctx, t, d)
}

// decisionOf returns a policy's decision about a port, or about any port for 0.
func decisionOf(p egress.Policy, name string, port int) egress.Decision {
	if port == 0 {
		return p.Lookup(name)
	}
	return p.Decide(name, port)
}

// Approved returns the policy of the approvals in force for a caller that would ask q: see approval.Broker.GrantsFor.
func Approved(b *approval.Broker, q approval.Question) egress.Policy {
	if b == nil {
		return egress.Policy{}
	}
	var patterns []string
	for _, g := range b.GrantsFor(approval.Egress, q) {
		patterns = append(patterns, g.Question.What)
	}
	p, err := egress.NewPolicy(patterns, nil)
	if err != nil { // an approval of an invalid pattern allows nothing
		return egress.Policy{}
	}
	return p
}

func (o *Session) question(t Scope) approval.Question {
	return approval.Question{Kind: approval.Egress, Namespace: o.cfg.Namespace, Session: o.cfg.Session, Run: t.Run, CodeSHA256: t.Code}
}

// askPerson waits for a person's answer. The connection waits too, and the program's time limit goes on.
func (o *Session) askPerson(ctx context.Context, t Scope, d egress.Decision) egress.Decision {
	q := o.question(t)
	q.Client, q.CodeOf, q.CodeSHA256 = t.Client, t.Code, "" // the question is about the host, not about the code
	q.What = d.Ask
	if o.leases().Redact(d.Ask) != d.Ask {
		d.Ask, d.Reason = "", "the name contains a secret, so no person is asked about it"
		return d
	}
	q.Reason = "a running program connects to it"
	if t.Head != nil {
		q.CodeHead = t.Head()
	}
	a, err := o.cfg.Approvals.Ask(ctx, q, t.Ask)
	switch {
	case err != nil && ctx.Err() == nil:
		d.Reason = fmt.Sprintf("a person can't be asked about %s: %v", d.Name, err)
	case err != nil:
		d.Reason = fmt.Sprintf("nobody approved %s before the program gave up: ask for the domain %s", d.Name, q.What)
	case a.Allowed:
		d.Allowed, d.Ask = true, ""
		d.Reason = fmt.Sprintf("approved by %s until %s", answeredBy(a), a.Until.UTC().Format(time.RFC3339))
	case a.IsTimeout(): // a later question may be answered
		d.Reason = fmt.Sprintf("%s was not approved: %s", d.Name, a.Reason)
	default:
		d.Ask, d.Reason = "", fmt.Sprintf("%s was denied by %s", d.Name, answeredBy(a))
		if a.Reason != "" {
			d.Reason += ": " + a.Reason
		}
	}
	return d
}

// answeredBy returns the name of the person who answered, and the channel.
func answeredBy(a approval.Answer) string {
	if a.User != "" {
		return a.User + " (" + a.By.String() + ")"
	}
	return a.By.String()
}
