// Package outbound holds the egress sessions of sandboxes: the policy of one sandbox by name, the questions to people
// about the rest, and the gateway that enforces both.
package outbound

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/relay"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Config describes an egress session.
type Config struct {
	Policy      egress.Policy // what may be reached without a person
	Bounds                    // until Narrow replaces them
	Changes     bool          // Narrow may be called
	Ports       []int         // on which the gateway listens; without any, the sandbox only learns that names can't be reached
	Ask         bool          // a person is asked about names that the policy neither allows nor denies
	Approvals   *approval.Broker
	Dialer      *egress.Dialer
	Idle        time.Duration // of a connection; 0 is the gateway's default
	Connections int           // at once; likewise
	Budget      *egress.Budget

	Roots *x509.CertPool // that names with bound secrets are verified with; nil are the machine's

	Namespace, Session string
	Leases             func() vault.Leases // of the sandbox so far
	TrustCA            bool                // secrets may be bound to names, so programs have to trust our certificates
	Record             Record              // of what is decided while no Scope is entered
}

// Bounds narrow what an egress session lets out. The zero value does not.
type Bounds struct {
	Within  *egress.Policy // what may be reached at all: nil is whatever Policy and people allow
	Without []netip.Prefix // addresses that are not connected to, whatever name leads there
	Headers []string       // names of the leased secrets that requests are given as headers; of others, none is
}

// Record makes a decision durable, before anything leaves. An error refuses what was allowed.
type Record func(ctx context.Context, d egress.Decision) error

// Scope is the policy and the record of one run in a sandbox. After Records the sandbox's own apply again.
type Scope struct {
	Run    string
	Client string         // whose agent it is, for people who are asked
	Code   string         // SHA-256 of the code in hex: an approval may be for that alone
	Head   func() string  // the beginning of the code, free of secrets; may be nil
	Within *egress.Policy // instead of the sandbox's; nil is that
	Ask    func(context.Context, *approval.Pending)
	Record Record
}

// Session is the egress session of one sandbox: Shape before the sandbox is started, Attach to it, and Records at the
// end of a run. A nil Session lets nothing out, and answers no look-up. Its methods may be called concurrently.
type Session struct {
	cfg   Config
	relay *relay.Relay

	names sync.Map // placeholder of a bound secret -> names, where it may go

	mu      sync.Mutex
	bounds  Bounds
	scope   Scope
	gateway *egress.Gateway
}

// scope is that of the sandbox itself.
func (c Config) scope() Scope { return Scope{Run: c.Session, Record: LimitRows(c.Record)} }

// New returns an egress session that no sandbox has yet.
func New(c Config) (*Session, error) {
	o := &Session{cfg: c, bounds: c.Bounds, scope: c.scope()}
	if !o.HasRoute() {
		return o, nil
	}
	var err error
	if o.relay, err = relay.New(o.relayed()); err != nil {
		return nil, fmt.Errorf("make the sandbox's certificate authority: %w", err)
	}
	return o, nil
}

// HasRoute reports whether the session can ever reach anything.
func (o *Session) HasRoute() bool { return o != nil && len(o.cfg.Ports) > 0 }

// PrepareSpec adds to spec what the sandbox needs for Attach, and returns variables for its programs.
func (o *Session) PrepareSpec(spec *backends.Spec) (env []string) {
	if spec.DNS = o != nil; o.HasRoute() {
		spec.Gateway, spec.Trust = o.cfg.Ports, o.relay.Authority()
	}
	return o.env()
}

// MissingPorts returns the ports that a policy opens and on which the gateway does not listen.
func (o *Session) MissingPorts(p egress.Policy) []int {
	return slices.DeleteFunc(p.Ports(), func(port int) bool { return slices.Contains(o.cfg.Ports, port) })
}

// Attach starts the gateway inside the sandbox, and enters a scope that has a record. Closing the sandbox that is
// returned ends that, too; with an error it is the one that was given.
func (o *Session) Attach(sandbox backends.Sandbox, t Scope) (backends.Sandbox, error) {
	if o == nil {
		return sandbox, nil
	}
	if t.Record != nil {
		o.SetScope(t)
	}
	g := sandbox.Gateway()
	if g.DNS == nil && !o.HasRoute() { // nothing leaves all the same, and nobody learns what was wanted
		return sandbox, nil
	}
	if g.DNS == nil || g.DNSStream == nil {
		return sandbox, errors.New("the backend's sandbox has no way out")
	}
	gateway := egress.Open(egress.Config{
		Decide: o.decide, Decided: o.recordDecision, Dial: cmp.Or(o.cfg.Dialer, &egress.Dialer{}).DialWithout(o.excluded), Relay: o.relay, Idle: o.cfg.Idle, Connections: o.cfg.Connections, Budget: o.cfg.Budget,
	}, egress.Sockets(g))
	o.mu.Lock()
	o.gateway = gateway
	o.mu.Unlock()
	return withGateway{sandbox, gateway}, nil
}

// withGateway is a sandbox that closes its gateway, too.
type withGateway struct {
	backends.Sandbox
	gateway *egress.Gateway
}

func (g withGateway) Close() error {
	g.gateway.Close()
	return g.Sandbox.Close()
}

// SetScope has decisions made and recorded in scope t, until Records. Connections that stand and that t may not
// make are ended.
func (o *Session) SetScope(t Scope) {
	if o == nil {
		return
	}
	t.Record = LimitRows(t.Record)
	o.mu.Lock()
	o.scope = t
	gateway := o.gateway
	o.mu.Unlock()
	if t.Within != nil && gateway != nil {
		gateway.CloseDenied(func(name string, port int) bool { return t.Within.Decide(name, port).Allowed })
	}
}

// CanNarrow reports whether Narrow may be called.
func (o *Session) CanNarrow() bool { return o != nil && o.cfg.Changes }

// Narrow replaces the bounds, and ends the connections that stand: to which address they lead is not known any more. A
// session that leads nowhere has none.
func (o *Session) Narrow(b Bounds) {
	if o == nil {
		return
	}
	o.mu.Lock()
	o.bounds = b
	gateway := o.gateway
	o.mu.Unlock()
	if gateway != nil {
		gateway.CloseDenied(func(string, int) bool { return false })
	}
}

func (o *Session) excluded() []netip.Prefix {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bounds.Without
}

// EndScope ends the scope, and returns the decisions since the one before it.
func (o *Session) EndScope() []egress.Record {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	gateway := o.gateway
	o.scope = o.cfg.scope()
	o.mu.Unlock()
	if gateway == nil {
		return nil
	}
	return gateway.TakeRecords()
}

// maxRows is how many decisions of one scope are rows of their own: a program that looks a million
// names up must not fill the log. The rest is in the row of the run's end, as a number.
const maxRows = 200

// LimitRows returns a record of one scope that leaves out refusals beyond a number.
func LimitRows(record Record) Record {
	var written atomic.Int64
	return func(ctx context.Context, d egress.Decision) error {
		n := written.Add(1)
		switch {
		case !d.Allowed && (n > maxRows || record == nil):
			return nil
		case record == nil:
			return errors.New("there is nowhere to record it")
		}
		return record(ctx, d)
	}
}

func (o *Session) recordDecision(ctx context.Context, d egress.Decision) error {
	o.mu.Lock()
	record := o.scope.Record
	o.mu.Unlock()
	return record(ctx, d)
}
