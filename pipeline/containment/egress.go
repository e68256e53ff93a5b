package containment

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Route is the egress policy of one request.
type Route struct {
	outbound.Bounds               // upper bounds
	Policy          egress.Policy // allowed by the operator
	Granted         egress.Policy // approved by people so far
	Open            bool          // its bounds may become wider later
}

// FindRoute returns the hosts that the operator allows and people have approved, narrowed to those that the request
// names. Each named host must be among them, unless a person typed the list or is asked about it later.
func FindRoute(r *pipeline.Run, allow []string, typed bool) (Route, error) {
	e := r.Pipeline.Config.Egress
	asker := approval.Question{Kind: approval.Egress, Namespace: r.Outcome.Namespace, Session: r.Outcome.Session, Run: r.Outcome.ID,
		CodeSHA256: r.Code}
	w := Route{Policy: e.Policy, Granted: outbound.Approved(r.Pipeline.Config.Approvals, asker)}
	if allow == nil {
		return w, nil
	}
	local, names := egress.CutLocal(allow)
	for _, port := range local { // approvals can't open ports of this machine
		if e.Dialer == nil || !slices.Contains(e.Dialer.Local, port) {
			return w, pipeline.Refuse(pipeline.StageEgress, fmt.Sprintf("localhost:%d is a port of this machine, which only its operator can allow",
				port),
				"ask the operator to add it to ", remedy.Setting.With("egress.local"))
		}
	}
	within, err := egress.NewPolicy(names, e.Deny)
	if err != nil && slices.ContainsFunc(allow, func(name string) bool { return r.Clean(name) != name }) {
		// err may have cut it
		return w, pipeline.Refuse(pipeline.StageEgress, "a domain of the request contains a secret", "name hosts like example.com")
	}
	if err != nil {
		hint := "name hosts like example.com, *.example.com or example.com:5432"
		if typed {
			hint += ", and ports of this machine like localhost:3000"
		}
		reason, do := remedy.Split(err)
		if do == nil {
			do = pipeline.Remedy{hint}
		}
		return w, pipeline.Refuse(pipeline.StageEgress, reason, do...)
	}
	within = within.WithLocal(local)
	w.Within = &within
	if typed {
		w.Policy = within
	}
	if typed || e.Ask && r.Pipeline.Config.Approvals != nil {
		return w, nil
	}
	var missing []string
	for _, name := range names {
		if e.Policy.Covers(name) || w.Granted.Covers(name) {
			continue
		}
		missing = append(missing, name)
		d := egress.Decision{Name: r.Clean(name), Ask: r.Clean(name), Reason: "the operator does not allow it, and nobody has approved it"}
		r.Outcome.Egress = append(r.Outcome.Egress, egress.Record{Decision: d})
		r.AddRow(event.EgressDenied, pipeline.Facts{"name": d.Name, "reason": d.Reason})
	}
	if len(missing) == 0 {
		return w, nil
	}
	return w, pipeline.Refuse(pipeline.StageEgress, fmt.Sprintf("%s may not be reached: the operator does not allow it, and nobody has "+
		"approved it", strings.Join(missing, ", ")),
		remedy.AskEgress)
}

// NewOutbound returns the egress session of a sandbox that needs one, else nil. A session needs one if a person could
// approve a host later, because listeners can't be opened then.
func NewOutbound(r *pipeline.Run, base string, allow []string, w Route, leases func() vault.Leases, session string) (*outbound.Session,
	error) {
	e := r.Pipeline.Config.Egress
	later := session != "" && r.Pipeline.Config.Approvals != nil
	ask := e.Ask && r.Pipeline.Config.Approvals != nil
	ports := slices.Concat(w.Policy.Ports(), w.Granted.Ports())
	narrow := w.Within != nil && !w.Open
	if narrow {
		ports = w.Within.Ports()
	}
	if later || ask {
		ports = append(ports, egress.WebPorts()...)
	}
	slices.Sort(ports)
	if ports = slices.Compact(ports); narrow && w.Within.Empty() { // no host is reachable, ever
		ports = nil
	}
	switch {
	case base == "landlock" && (allow == nil || len(ports) == 0):
		return nil, nil // allow less rather than refuse the default
	case base == "landlock":
		return nil, &pipeline.Error{Stage: pipeline.StageEgress, Layer: backends.LayerNet, Denied: true,
			Reason: "the profile landlock has no network namespace for egress", Remedy: pipeline.Remedy{"use the profile hardened"}}
	}
	return outbound.New(outbound.Config{
		Policy: w.Policy, Bounds: w.Bounds, Changes: w.Open, Ports: ports, Ask: ask, Approvals: r.Pipeline.Config.Approvals,
		Dialer: e.Dialer, Roots: e.Roots, Idle: e.Idle, Connections: e.Connections, Budget: r.Pipeline.Budget,
		Namespace: r.Outcome.Namespace, Session: session, Leases: leases,
		TrustCA: session != "" && (w.Open || r.Pipeline.Config.Vault.MayBind()) || len(leases().Bound()) > 0,
		Record:  DecisionRecorder(r.Pipeline, r.Outcome.ID, r.Outcome.Namespace, func(s string) string { return leases().Redact(s) }),
	})
}

// DecisionRecorder returns a function that writes each decision to the log at once.
func DecisionRecorder(p *pipeline.Pipeline, id, namespace string, clean func(string) string) outbound.Record {
	return func(ctx context.Context, d egress.Decision) error {
		data := pipeline.Facts{"name": safetext.Clip(clean(d.Name), pipeline.MaxText),
			"reason": safetext.Clip(clean(d.Reason), pipeline.MaxReason)}
		data.AddIf("port", d.Port, d.Port)
		if d.Failed {
			data["failed"] = true
		}
		return p.RecordRow(ctx, EgressKind(d.Allowed), id, namespace, data)
	}
}

// EgressKind returns the kind of row for a decision.
func EgressKind(allowed bool) string {
	if allowed {
		return event.EgressApproved
	}
	return event.EgressDenied
}

// AddDecisions adds redacted decisions to the result.
func AddDecisions(r *pipeline.Run, all []egress.Record) {
	for _, d := range all {
		d.Name, d.Reason, d.Ask = r.Clean(d.Name), r.Clean(d.Reason), r.Clean(d.Ask)
		r.Outcome.Egress = append(r.Outcome.Egress, d)
	}
}

// CheckAskable refuses a domain that nobody can approve, because it is invalid or the operator denies it.
func CheckAskable(p *pipeline.Pipeline, domain string) error {
	if _, err := egress.NewPolicy([]string{domain}, nil); err != nil {
		reason, do := remedy.Split(err)
		return pipeline.Refuse(pipeline.StageEgress, reason, do...)
	}
	if by, denied := p.Config.Egress.Policy.Denies(domain); denied {
		return pipeline.Refuse(pipeline.StageEgress, fmt.Sprintf("the operator denies %s, so nobody can approve it", by), "continue without it")
	}
	return nil
}

// Reachable returns the patterns of hosts that programs reach without asking, sorted.
func Reachable(p *pipeline.Pipeline) []string { return p.Config.Egress.Policy.Allowed() }
