package egress

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/sandboxmcp/sandboxmcp/egress/relay"
)

// relay has HTTP passed on, by one of the relay's two ways.
func (c *connection) relay(ctx context.Context, o *prelude, by func(context.Context, relay.Route) error) {
	var first atomic.Bool
	err := by(ctx, relay.Route{
		Name: c.name, Port: c.port, Client: o.tap(),
		Dial: func(ctx context.Context) (net.Conn, error) {
			if !first.CompareAndSwap(false, true) {
				return c.further(ctx)
			}
			server, err := o.settle()
			if err != nil {
				return nil, err
			}
			return server, nil
		},
		Refused: func(reason string) { c.record(ctx, Decision{Reason: reason}) },
	})
	if errors.Is(err, relay.ErrHandshake) && ctx.Err() == nil {
		c.record(ctx, Decision{Allowed: true, Failed: true, Reason: "TLS with the program failed: it has to trust the certificate of this sandbox (SSL_CERT_FILE): " + singleLine(err)})
	}
	c.finish()
}

// further connects to the name once more, for a client whose connection stands: that is decided and
// recorded like any other. The client waits meanwhile, as its requests do.
func (c *connection) further(ctx context.Context) (net.Conn, error) {
	d := c.g.config.Decide(ctx, c.name, c.port)
	counts, err := c.g.counters.note(ctx, d)
	switch {
	case err != nil:
		return nil, ruled{err}
	case !d.Allowed:
		c.g.counters.release(counts)
		return nil, ruled{errors.New(d.Reason)}
	}
	c.mu.Lock()
	c.more = append(c.more, counts)
	c.mu.Unlock()
	server, err := c.dial(ctx, counts)
	if err != nil {
		return nil, err
	}
	return &tap{Conn: server, c: c, in: &counts.received, out: &counts.sent}, nil
}
