package session

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/outbound"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Network narrows the hosts that a session may reach; it can't allow more than the operator does.
type Network struct {
	Allow   []string       // as in Request: nil is the operator's allowlist, an empty list allows none
	Deny    []netip.Prefix // addresses that are refused, under any name
	Headers []Header       // added to requests
}

// Header is set on each request to a host on its way, over TLS, in place of the program's own. Its value is a secret
// that the program never gets.
type Header struct{ Host, Name, Value string }

// Bounds of a session's rules.
const (
	MaxDenied  = 1000
	MaxHeaders = 100
	MaxLeased  = 1000 // values of headers, including those of replaced rules, whose secrets are still redacted
)

// reserved are the headers that control the connection, or that the relay sets itself.
var reserved = []string{"host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "keep-alive",
	"proxy-authorization", "proxy-authenticate", "proxy-connection", "accept-encoding", "range", "if-range", "expect"}

// check refuses rules that can't be enforced.
func (n Network) check() error {
	if len(n.Deny) > MaxDenied || len(n.Headers) > MaxHeaders {
		return pipeline.Refuse(pipeline.StageEgress, fmt.Sprintf("a session has at most %d rules about addresses and %d about headers", MaxDenied,
			MaxHeaders), "")
	}
	for _, h := range n.Headers {
		if _, err := egress.NewPolicy([]string{h.Host}, nil); err != nil {
			return pipeline.Refuse(pipeline.StageEgress, fmt.Sprintf("rule for the header %.100q: %v", h.Name, err),
				"name hosts like api.example.com")
		}
		if !httpguts.ValidHeaderFieldName(h.Name) || slices.Contains(reserved, strings.ToLower(h.Name)) {
			return pipeline.Refuse(pipeline.StageEgress, fmt.Sprintf("%.100q is not a header that a rule can set", h.Name), "")
		}
	}
	return nil
}

// lease leases the values of the headers, under names that are unique in the session.
func (n Network) lease(v *vault.Vault, id string) (l *vault.Lease, names []string, err error) {
	var values []vault.Value
	for i, h := range n.Headers {
		name := fmt.Sprintf("NETWORK_RULE_%s_%d", id, i+1)
		names = append(names, name)
		values = append(values, vault.Value{Name: name, Value: []byte(h.Value), To: vault.Binding{Hosts: []string{h.Host}}, Header: h.Name})
	}
	if l, err = v.LeaseValues(values); err != nil {
		return nil, nil, pipeline.Refuse(pipeline.StageVault, "the value of a header can't be put into requests: "+err.Error(), "")
	}
	return l, names, nil
}

// SetNetwork replaces the network rules of a living session, and closes its connections. The session must have been
// created with a Network.
type SetNetwork struct {
	Namespace, Session string
	Network
}

func (q SetNetwork) Subject() pipeline.Subject {
	about := pipeline.About("network", q.Namespace, q.Session)
	about.Facts = pipeline.Facts{}
	about.Facts.AddIf("allow", q.Allow, len(q.Allow))
	return about
}

// Plan checks the rules.
func (q SetNetwork) Plan(_ context.Context, r *pipeline.Run) (pipeline.Action[pipeline.NoAnswer], error) {
	s, err := FindSession(r.Pipeline, q.Namespace, q.Session)
	if err != nil {
		return nil, err
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	w, err := containment.FindRoute(r, q.Allow, false)
	if err != nil {
		return nil, err
	}
	if out := s.Outbound(); out != nil && !out.CanNarrow() {
		return nil, pipeline.Refuse(pipeline.StageEgress, "the session was created with a fixed network", "create another session")
	}
	w.Open = true
	c := &pipeline.Change[pipeline.NoAnswer]{Task: pipeline.Task[pipeline.NoAnswer]{Run: r, Stage: pipeline.StageEgress},
		RowKind: SessionNetwork, Facts: pipeline.Facts{"session": q.Session, "allow": q.Allow, "deny": len(q.Deny), "headers": len(q.Headers)}}
	c.Do = func(context.Context) (pipeline.NoAnswer, error) { return pipeline.NoAnswer{}, q.apply(r, s, w.Within) }
	return c, nil
}

// SessionNetwork is the kind of row about changed network rules.
const SessionNetwork = "session.network"

func (q SetNetwork) apply(r *pipeline.Run, s *Session, within *egress.Policy) error {
	leased := len(q.Headers)
	for _, l := range s.Leases() {
		leased += len(l.Names())
	}
	if len(q.Headers) > 0 && leased > MaxLeased {
		return pipeline.Refuse(pipeline.StageVault, fmt.Sprintf("the session has used more than %d header values, with those of replaced rules",
			MaxLeased), "create another session")
	}
	l, names, err := q.lease(r.Pipeline.Config.Vault, r.Outcome.ID)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		s.AddLease(l)
	}
	s.Outbound().Narrow(outbound.Bounds{Within: within, Without: q.Deny, Headers: names})
	return nil
}
