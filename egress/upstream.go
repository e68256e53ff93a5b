package egress

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"

	"github.com/sandboxmcp/sandboxmcp/egress/relay"
)

// passHTTP forwards HTTP with one of the relay's two methods.
func (c *connection) passHTTP(ctx context.Context, o *prelude, by func(context.Context, relay.Route) error) {
	var first atomic.Bool
	err := by(ctx, relay.Route{
		Name: c.name, Port: c.port, Client: o.newClientTap(),
		Dial: func(ctx context.Context) (net.Conn, error) {
			if !first.CompareAndSwap(false, true) {
				return c.dialAgain(ctx)
			}
			server, err := o.waitForServer()
			if err != nil {
				return nil, err
			}
			return server, nil
		},
		OnRefusal: func(reason string) { c.record(ctx, Decision{Reason: reason}) },
	})
	if errors.Is(err, relay.ErrHandshake) && ctx.Err() == nil {
		c.record(ctx, Decision{Allowed: true, Failed: true, Reason: "TLS with the program failed: it has to trust the certificate of this " +
			"sandbox (SSL_CERT_FILE): " + oneLineError(err)})
	}
	c.closeAll()
}

// dialAgain connects to the name again for a client's open connection. The new connection is decided and recorded like
// any other. The client's requests wait meanwhile.
func (c *connection) dialAgain(ctx context.Context) (net.Conn, error) {
	d := c.g.config.Decide(ctx, c.name, c.port)
	counts, err := c.g.counters.countDecision(ctx, d)
	switch {
	case err != nil:
		return nil, refusedByRule{err}
	case !d.Allowed:
		c.g.counters.release(counts)
		return nil, refusedByRule{errors.New(d.Reason)}
	}
	c.mu.Lock()
	c.furtherEntries = append(c.furtherEntries, counts)
	c.mu.Unlock()
	server, err := c.dial(ctx, counts)
	if err != nil {
		return nil, err
	}
	return &tap{Conn: server, c: c, in: &counts.received, out: &counts.sent}, nil
}

// refusedByRule marks an error of the dialer as a refusal.
type refusedByRule struct{ error }

func (refusedByRule) Is(target error) bool { return target == relay.ErrRefused }

// dial connects to the name. A refusal or a failure is recorded instead of the allowed connection: the program only
// sees a reset.
func (c *connection) dial(ctx context.Context, counts *entry) (net.Conn, error) {
	server, err := c.g.config.Dial(ctx, c.name, c.port)
	if err == nil && c.attachServer(server) {
		return server, nil
	}
	if err == nil {
		return nil, net.ErrClosed
	}
	d := Decision{Allowed: true, Failed: true, Reason: "it is allowed, but no connection came about: " + oneLineError(err)}
	if _, blocked := errors.AsType[*Blocked](err); blocked {
		d, err = Decision{Reason: err.Error()}, refusedByRule{err}
	} else if ctx.Err() != nil {
		return nil, err
	}
	c.g.counters.discount(counts)
	c.record(ctx, d)
	return nil, err
}

// oneLineError shortens an error to a single line for a record.
func oneLineError(err error) string {
	s := strings.Join(strings.Fields(err.Error()), " ")
	return strings.ToValidUTF8(s[:min(len(s), 300)], "")
}
