// Package outbound has the egress sessions of sandboxes: each has the policy of one sandbox by name, the questions to
// people about other hosts, and the gateway that enforces both.
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
	Policy      egress.Policy // hosts that are allowed without a person
	Bounds                    // initial bounds, until Narrow
	Changes     bool          // Narrow may be called
	Ports       []int         // ports of the gateway; without any, it only refuses
	Ask         bool          // ask a person about hosts that the policy neither allows nor denies
	Approvals   *approval.Broker
	Dialer      *egress.Dialer
	Idle        time.Duration // idle timeout of a connection; 0 is the gateway's default
	Connections int           // maximum of concurrent ones; likewise
	Budget      *egress.Budget

	Roots *x509.CertPool // verify hosts with bound secrets; nil: the system roots

	Namespace, Session string
	Leases             func() vault.Leases // current leases of the sandbox
	TrustCA            bool                // secrets may be bound to hosts, so programs must trust our certificates
	Record             Record              // records decisions outside of any Scope
}

// Bounds narrow an egress session. The zero value does not.
type Bounds struct {
	Within  *egress.Policy // upper bound of the allowed hosts: nil is unbounded
	Without []netip.Prefix // addresses that are refused, under any name
	Headers []string       // names of leased secrets that are added to requests as headers
}

// Record makes a decision durable before any data leaves. Its error refuses an allowed connection.
type Record func(ctx context.Context, d egress.Decision) error

// Scope is the policy and the record of one run in a sandbox. After EndScope, the sandbox's own apply again.
type Scope struct {
	Run    string
	Client string         // the agent's program, for people who are asked
	Code   string         // SHA-256 of the code in hex: an approval may be limited to it
	Head   func() string  // beginning of the code, redacted; may be nil
	Within *egress.Policy // replaces the sandbox's; nil keeps that
	Ask    func(context.Context, *approval.Pending)
	Record Record
}

// Session is the egress session of one sandbox: call PrepareSpec before the sandbox starts, Attach for it, and
// EndScope at the end of a run. A nil Session allows nothing, and answers no lookups. Its methods may be called
// concurrently.
type Session struct {
	cfg   Config
	relay *relay.Relay

	names sync.Map // placeholder of a bound secret -> names that may receive it

	mu      sync.Mutex
	bounds  Bounds
	scope   Scope
	gateway *egress.Gateway
}

// scope returns the scope of the sandbox itself.
func (c Config) scope() Scope { return Scope{Run: c.Session, Record: LimitRows(c.Record)} }

// New returns an egress session without a sandbox.
func New(c Config) (*Session, error) {
	o := &Session{cfg: c, bounds: c.Bounds, scope: c.scope()}
	if !o.HasRoute() {
		return o, nil
	}
	var err error
	if o.relay, err = relay.New(o.relayed()); err != nil {
		return nil, fmt.Errorf("create the sandbox's certificate authority: %w", err)
	}
	return o, nil
}

// HasRoute reports whether the session can ever reach any host.
func (o *Session) HasRoute() bool { return o != nil && len(o.cfg.Ports) > 0 }

// PrepareSpec adds the requirements of Attach to spec, and returns variables for programs.
func (o *Session) PrepareSpec(spec *backends.Spec) (env []string) {
	if spec.DNS = o != nil; o.HasRoute() {
		spec.Gateway, spec.Trust = o.cfg.Ports, o.relay.Authority()
	}
	return o.env()
}

// MissingPorts returns the ports that a policy needs and the gateway lacks.
func (o *Session) MissingPorts(p egress.Policy) []int {
	return slices.DeleteFunc(p.Ports(), func(port int) bool { return slices.Contains(o.cfg.Ports, port) })
}

// Attach starts the gateway inside the sandbox, and enters the scope if it has a record. Closing the returned sandbox
// closes the gateway too; with an error, it is the original sandbox.
func (o *Session) Attach(sandbox backends.Sandbox, t Scope) (backends.Sandbox, error) {
	if o == nil {
		return sandbox, nil
	}
	if t.Record != nil {
		o.SetScope(t)
	}
	g := sandbox.Gateway()
	if g.DNS == nil && !o.HasRoute() { // traffic is blocked anyway, only attempts go unrecorded
		return sandbox, nil
	}
	if g.DNS == nil || g.DNSStream == nil {
		return sandbox, errors.New("the backend's sandbox has no egress")
	}
	gateway := egress.Open(egress.Config{
		Decide: o.decide, Decided: o.recordDecision, Dial: cmp.Or(o.cfg.Dialer, &egress.Dialer{}).DialWithout(o.excluded), Relay: o.relay,
		Idle: o.cfg.Idle, Connections: o.cfg.Connections, Budget: o.cfg.Budget,
	}, egress.Sockets(g))
	o.mu.Lock()
	o.gateway = gateway
	o.mu.Unlock()
	return withGateway{sandbox, gateway}, nil
}

// withGateway is a sandbox that closes its gateway too.
type withGateway struct {
	backends.Sandbox
	gateway *egress.Gateway
}

func (g withGateway) Close() error {
	g.gateway.Close()
	return g.Sandbox.Close()
}

// SetScope makes decisions use scope t, until EndScope. It closes existing connections that t does not allow.
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

// Narrow replaces the bounds, and closes all connections, because their original addresses are no longer known. A
// session without a route has none.
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

// EndScope ends the scope, and returns the decisions since the previous one.
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

// maxRows bounds the decisions of one scope with rows of their own: a program that looks up a million names must not
// fill the log. The row of the run's end has the total.
const maxRows = 200

// LimitRows returns a record for one scope that skips refusals beyond maxRows.
func LimitRows(record Record) Record {
	var written atomic.Int64
	return func(ctx context.Context, d egress.Decision) error {
		n := written.Add(1)
		switch {
		case !d.Allowed && (n > maxRows || record == nil):
			return nil
		case record == nil:
			return errors.New("there is no record for it")
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
