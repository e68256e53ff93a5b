package pipeline

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
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

// egress decides what the run may reach. Most may reach nothing, and only learn so.
func (e *execution) egress(context.Context) error {
	defer e.time(&e.res.Timings.Egress)()
	route, err := e.route(e.request.Allow, e.request.Typed)
	if err != nil {
		return err
	}
	if e.guard == nil {
		leases := e.leases
		e.outbound, err = e.newOutbound(e.base, e.request.Allow, route, func() vault.Leases { return leases }, "")
	} else {
		e.outbound, e.within = e.guard.Outbound(), route.Within
		err = e.fits()
	}
	e.unreachable(route)
	return err
}

// route is the policy of one request.
type route struct {
	outbound.Bounds               // at all
	policy          egress.Policy // without a person
	granted         egress.Policy // by people, so far
	open            bool          // it may become wider later
}

// route returns what the operator allows and people have granted, and if the request names names, no more than
// these. What it names must be among that, unless a person has typed it, or is asked about it later.
func (r *run) route(allow []string, typed bool) (route, error) {
	e := r.p.cfg.Egress
	asker := approval.Question{Kind: approval.Egress, Namespace: r.res.Namespace, Session: r.res.Session, Run: r.res.ID, CodeSHA256: r.code}
	w := route{policy: e.Policy, granted: outbound.Approved(r.p.cfg.Approvals, asker)}
	if allow == nil {
		return w, nil
	}
	local, names := egress.CutLocal(allow)
	for _, port := range local { // whatever may be asked of people later: this is not
		if e.Dialer == nil || !slices.Contains(e.Dialer.Local, port) {
			return w, refuse(StageEgress, fmt.Sprintf("localhost:%d is a port of this machine, which nobody but its operator opens", port),
				"have it added to ", remedy.Setting.With("egress.local"))
		}
	}
	within, err := egress.NewPolicy(names, e.Deny)
	if err != nil && slices.ContainsFunc(allow, func(name string) bool { return r.clean(name) != name }) {
		return w, refuse(StageEgress, "a domain that was named has a secret in it", "name hosts like example.com") // which the error may have cut
	}
	if err != nil {
		hint := "name hosts like example.com, *.example.com or example.com:5432"
		if typed {
			hint += ", and ports of this machine like localhost:3000"
		}
		reason, do := remedy.Split(err)
		if do == nil {
			do = Remedy{hint}
		}
		return w, refuse(StageEgress, reason, do...)
	}
	within = within.WithLocal(local)
	w.Within = &within
	if typed {
		w.policy = within
	}
	if typed || e.Ask && r.p.cfg.Approvals != nil {
		return w, nil
	}
	var missing []string
	for _, name := range names {
		if e.Policy.Covers(name) || w.granted.Covers(name) {
			continue
		}
		missing = append(missing, name)
		d := egress.Decision{Name: r.clean(name), Ask: r.clean(name), Reason: "it is not among the domains that the operator allows, and nobody has approved it"}
		r.res.Egress = append(r.res.Egress, egress.Record{Decision: d})
		r.note(event.EgressDenied, facts{"name": d.Name, "reason": d.Reason})
	}
	if len(missing) == 0 {
		return w, nil
	}
	return w, refuse(StageEgress, fmt.Sprintf("%s may not be reached: the operator does not allow it, and nobody has approved it", strings.Join(missing, ", ")),
		remedy.AskEgress)
}

// newOutbound returns the egress session of a sandbox that needs one. A session needs one when somebody could
// approve a name later: its listeners can't be opened then.
func (r *run) newOutbound(base string, allow []string, w route, leases func() vault.Leases, session string) (*outbound.Session, error) {
	e := r.p.cfg.Egress
	later := session != "" && r.p.cfg.Approvals != nil
	ask := e.Ask && r.p.cfg.Approvals != nil
	ports := slices.Concat(w.policy.Ports(), w.granted.Ports())
	narrow := w.Within != nil && !w.open
	if narrow {
		ports = w.Within.Ports()
	}
	if later || ask {
		ports = append(ports, egress.WebPorts()...)
	}
	slices.Sort(ports)
	if ports = slices.Compact(ports); narrow && w.Within.Empty() { // then nothing can ever be reached
		ports = nil
	}
	switch {
	case base == "landlock" && (allow == nil || len(ports) == 0):
		return nil, nil // the default is not worth a refusal, and less is let out
	case base == "landlock":
		return nil, &Error{Stage: StageEgress, Layer: backends.LayerNet, Denied: true,
			Reason: "the profile landlock has no network of its own that could lead out", Remedy: Remedy{"use the profile hardened"}}
	}
	return outbound.New(outbound.Config{
		Policy: w.policy, Bounds: w.Bounds, Changes: w.open, Ports: ports, Ask: ask, Approvals: r.p.cfg.Approvals,
		Dialer: e.Dialer, Roots: e.Roots, Idle: e.Idle, Connections: e.Connections, Budget: r.p.budget,
		Namespace: r.res.Namespace, Session: session, Leases: leases,
		TrustCA: session != "" && (w.open || r.p.cfg.Vault.MayBind()) || len(leases().Bound()) > 0,
		Record:  r.p.recorder(r.res.ID, r.res.Namespace, func(s string) string { return leases().Redact(s) }),
	})
}

// scope is that of the run in its sandbox's egress session.
func (e *execution) scope() outbound.Scope {
	q := e.request
	return outbound.Scope{Run: e.res.ID, Client: q.Client, Code: e.code, Head: func() string { return head(e.clean(string(q.Code))) },
		Within: e.within, Ask: q.Ask, Record: e.p.recorder(e.res.ID, e.res.Namespace, e.clean)}
}

// fits refuses what the egress session of an existing session does not have.
func (e *execution) fits() error {
	const another = "create another session"
	named := e.within != nil && !e.within.Empty()
	var lacks []int
	if named && e.outbound.Leads() {
		lacks = e.outbound.Lacks(*e.within)
	}
	binds := slices.ContainsFunc(e.leases.Bound(), func(b vault.Bound) bool { return slices.Contains(e.request.Secrets, b.Name) })
	switch {
	case !e.outbound.Leads() && named:
		return refuse(StageEgress, "the session was created without a network", another+", with ", remedy.Allow)
	case !e.outbound.Leads():
		return nil
	case len(lacks) > 0:
		return refuse(StageEgress, fmt.Sprintf("the session was created without a way out on port %d", lacks[0]),
			another+", with ", remedy.Allow)
	case binds && !e.outbound.Opens():
		return refuse(StageEgress, "the session is older than the first secret that was bound to names, and so trusts no certificates of ours", another)
	}
	return nil
}

// unreachable warns of bound secrets that can't get to where they are bound.
func (e *execution) unreachable(w route) {
	q, reach := e.request, w.policy
	if w.Within != nil {
		reach = *w.Within
	}
	for _, b := range e.leases.Bound() {
		covered := func(host string) bool {
			to, err := egress.NewPolicy([]string{host}, nil)
			return err == nil && (reach.Covers(host) || w.granted.Covers(host) || slices.ContainsFunc(q.Allow, to.Covers)) ||
				q.Allow == nil && !reach.Empty() && strings.HasPrefix(host, "*.") // of many names some may be allowed
		}
		if !slices.Contains(q.Secrets, b.Name) || slices.ContainsFunc(b.Hosts, covered) || e.p.cfg.Egress.Ask && w.Within == nil {
			continue
		}
		e.warn("secret ", b.Name, " is only ever sent to ", strings.Join(b.Hosts, ", "), ", which the run may not reach: allow it with ", remedy.Allow.With(b.Hosts[0]))
	}
}

// headLines is how much of its code a person is shown with a question.
const headLines = 12

// head returns the beginning of a text, and says how much is left out.
func head(text string) string {
	lines := strings.SplitAfterN(text, "\n", headLines+1)
	if len(lines) <= headLines {
		return text
	}
	return strings.Join(lines[:headLines], "") + fmt.Sprintf("... and %d lines more", strings.Count(strings.TrimRight(lines[headLines], "\n"), "\n")+1)
}

// recorder writes decisions to the log as they are made.
func (p *Pipeline) recorder(id, namespace string, clean func(string) string) outbound.Record {
	return func(ctx context.Context, d egress.Decision) error {
		data := facts{"name": safetext.Clip(clean(d.Name), maxText), "reason": safetext.Clip(clean(d.Reason), maxReason)}
		data.add("port", d.Port, d.Port)
		if d.Failed {
			data["failed"] = true
		}
		return p.record(ctx, egressKind(d.Allowed), id, namespace, data)
	}
}

// egressKind returns the kind of row for a decision.
func egressKind(allowed bool) string {
	if allowed {
		return event.EgressApproved
	}
	return event.EgressDenied
}

// decided adds decisions to the result, free of secrets.
func (r *run) decided(all []egress.Record) {
	for _, d := range all {
		d.Name, d.Reason, d.Ask = r.clean(d.Name), r.clean(d.Reason), r.clean(d.Ask)
		r.res.Egress = append(r.res.Egress, d)
	}
}

// AskFor refuses what no person can allow: a domain, as in Request.Allow, that the operator denies.
func (p *Pipeline) AskFor(domain string) error {
	if _, err := egress.NewPolicy([]string{domain}, nil); err != nil {
		reason, do := remedy.Split(err)
		return refuse(StageEgress, reason, do...)
	}
	if by, denied := p.cfg.Egress.Policy.Denies(domain); denied {
		return refuse(StageEgress, fmt.Sprintf("the operator denies %s, and nobody can approve it", by), "do without it")
	}
	return nil
}

// forget drops what people have approved for a run or a session that has ended.
func (p *Pipeline) forget(id string) {
	if p.cfg.Approvals != nil {
		p.cfg.Approvals.Forget(id)
	}
}
