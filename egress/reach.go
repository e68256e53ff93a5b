package egress

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/egress/relay"
)

// ruled is an error of the dialer that is a refusal.
type ruled struct{ error }

func (ruled) Is(target error) bool { return target == relay.ErrRefused }

// dial connects to the name. That this is refused, or fails, is recorded instead of the connection that it
// was to be: the program sees one that is reset, from which nobody could tell.
func (c *connection) dial(ctx context.Context, counts *entry) (net.Conn, error) {
	server, err := c.g.dial(ctx, c.name, c.port)
	if err == nil && c.adopt(server) {
		return server, nil
	}
	if err == nil {
		return nil, net.ErrClosed
	}
	d := Decision{Allowed: true, Failed: true, Reason: "it is allowed, but no connection came about: " + singleLine(err)}
	var blocked *Blocked
	if errors.As(err, &blocked) {
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
