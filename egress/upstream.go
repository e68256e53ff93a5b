package egress

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"

	"github.com/sandboxmcp/sandboxmcp/egress/relay"
)

// relay passes HTTP on with one of the relay's two methods.
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

// further connects to the name once more for a client's open connection: the connection is decided and recorded like
// any other. The client's requests wait meanwhile.
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

// ruled marks an error of the dialer as a refusal.
type ruled struct{ error }

func (ruled) Is(target error) bool { return target == relay.ErrRefused }

// dial connects to the name. A refusal or a failure is recorded in place of the allowed connection: the program only
// sees a reset.
func (c *connection) dial(ctx context.Context, counts *entry) (net.Conn, error) {
	server, err := c.g.config.Dial(ctx, c.name, c.port)
	if err == nil && c.adopt(server) {
		return server, nil
	}
	if err == nil {
		return nil, net.ErrClosed
	}
	d := Decision{Allowed: true, Failed: true, Reason: "it is allowed, but no connection came about: " + singleLine(err)}
	if _, blocked := errors.AsType[*Blocked](err); blocked {
		d, err = Decision{Reason: err.Error()}, ruled{err}
	} else if ctx.Err() != nil {
		return nil, err
	}
	c.g.counters.discount(counts)
	c.record(ctx, d)
	return nil, err
}

// singleLine makes an error fit for a record: without line breaks, and short.
func singleLine(err error) string {
	s := strings.Join(strings.Fields(err.Error()), " ")
	return strings.ToValidUTF8(s[:min(len(s), 300)], "")
}
