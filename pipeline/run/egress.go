package run

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// egress decides which hosts the run may reach. Most runs may reach none.
func (e *execution) egress(context.Context) error {
	defer e.TimeStage(&e.Outcome.Timings.Egress)()
	route, err := containment.FindRoute(e.Run, e.request.Allow, e.request.Typed)
	if err != nil {
		return err
	}
	if e.guard == nil {
		leases := e.Leases
		e.outbound, err = containment.NewOutbound(e.Run, e.Base, e.request.Allow, route, func() vault.Leases { return leases }, "")
	} else {
		e.outbound, e.within = e.guard.Outbound(), route.Within
		err = e.checkSessionReach()
	}
	e.warnUnreachableSecrets(route)
	return err
}

// scope returns the scope of the run in its sandbox's egress session.
func (e *execution) scope() outbound.Scope {
	q := e.request
	return outbound.Scope{Run: e.Outcome.ID, Client: q.Client, Code: e.Code, Head: func() string { return Head(e.Clean(string(q.Code))) },
		Within: e.within, Ask: q.Ask, Record: containment.DecisionRecorder(e.Pipeline, e.Outcome.ID, e.Outcome.Namespace, e.Clean)}
}

// checkSessionReach refuses a cell that needs more of the network than its existing session has.
func (e *execution) checkSessionReach() error {
	const another = "create another session"
	named := e.within != nil && !e.within.Empty()
	var lacks []int
	if named && e.outbound.HasRoute() {
		lacks = e.outbound.MissingPorts(*e.within)
	}
	binds := slices.ContainsFunc(e.Leases.Bound(), func(b vault.Bound) bool { return slices.Contains(e.request.Secrets, b.Name) })
	switch {
	case !e.outbound.HasRoute() && named:
		return pipeline.Refuse(pipeline.StageEgress, "the session was created without a network", another+", with ", remedy.Allow)
	case !e.outbound.HasRoute():
		return nil
	case len(lacks) > 0:
		return pipeline.Refuse(pipeline.StageEgress, fmt.Sprintf("the session was created without access to port %d", lacks[0]),
			another+", with ", remedy.Allow)
	case binds && !e.outbound.InspectsTLS():
		return pipeline.Refuse(pipeline.StageEgress, "the session is older than the first secret bound to hosts, so it does not trust the "+
			"certificates that such secrets need", another)
	}
	return nil
}

// warnUnreachableSecrets warns about bound secrets whose hosts the run may not reach.
func (e *execution) warnUnreachableSecrets(w containment.Route) {
	q, reach := e.request, w.Policy
	if w.Within != nil {
		reach = *w.Within
	}
	for _, b := range e.Leases.Bound() {
		covered := func(host string) bool {
			to, err := egress.NewPolicy([]string{host}, nil)
			return err == nil && (reach.Covers(host) || w.Granted.Covers(host) || slices.ContainsFunc(q.Allow, to.Covers)) ||
				q.Allow == nil && !reach.Empty() && strings.HasPrefix(host, "*.") // some of its many names may be allowed
		}
		if !slices.Contains(q.Secrets, b.Name) || slices.ContainsFunc(b.Hosts, covered) || e.Pipeline.Config.Egress.Ask && w.Within == nil {
			continue
		}
		e.Warn("secret ", b.Name, " is sent only to ", strings.Join(b.Hosts, ", "), ", which the run may not reach: allow it with ",
			remedy.Allow.With(b.Hosts[0]))
	}
}

// headLines bounds the code that a person sees with a question.
const headLines = 12

// Head returns the first lines of a text, and a note about how many are left out.
func Head(text string) string {
	lines := strings.SplitAfterN(text, "\n", headLines+1)
	if len(lines) <= headLines {
		return text
	}
	return strings.Join(lines[:headLines], "") + fmt.Sprintf("... and %d more lines", strings.Count(strings.TrimRight(lines[headLines], "\n"),
		"\n")+1)
}
