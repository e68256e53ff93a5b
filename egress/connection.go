package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress/relay"
)

// patience is how long something may take before we begin to look whether the client still waits.
const patience = 20 * time.Millisecond

// connection is one that a program made to a name, and that was allowed.
type connection struct {
	g      *Gateway
	client net.Conn
	name   string
	port   int
	counts *entry
	born   time.Time
	moved  atomic.Int64 // when something last moved, after born

	mu     sync.Mutex
	over   bool
	server []net.Conn // those that are open
	more   []*entry   // of connections to the name after the first
	timer  *time.Timer
	work   sync.WaitGroup
}

// full ends a connection for which there is no room.
func (g *Gateway) full(ctx context.Context, client net.Conn, why string) {
	reset(client)
	d := Decision{Reason: why}
	d.Name, d.Port, _ = g.meant(client.LocalAddr())
	e, _ := g.tally.note(ctx, d)
	g.tally.release(e)
}

// serve has one connection decided about and passed on.
func (g *Gateway) serve(ctx context.Context, client net.Conn) {
	name, port, known := g.meant(client.LocalAddr())
	d := Decision{Name: name, Port: port}
	var gone bool
	switch {
	case !known:
		d.Name = "127.0.0.0/8" // one record for all of them: a program can try millions
		d.Reason = "an address that no name stands for: connect to names"
	default:
		d, gone = g.ask(ctx, client, name, port)
	}
	if !d.Allowed || gone {
		reset(client)
		e, _ := g.tally.note(ctx, d)
		g.tally.release(e)
		return
	}
	counts, err := g.tally.note(ctx, d)
	if err != nil {
		reset(client)
		g.tally.release(g.tally.hold(Decision{Name: d.Name, Port: d.Port, Reason: err.Error()}))
		return
	}
	c := &connection{g: g, client: client, name: name, port: port, counts: counts, born: time.Now()}
	defer c.release()
	g.fit(client)
	g.add(c)
	defer g.remove(c)
	c.pass(ctx)
}

// meant returns the name and the port that were connected to. An unknown name is the address.
func (g *Gateway) meant(local net.Addr) (name string, port int, known bool) {
	at, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return quote(local.String()), 0, false
	}
	name, known = g.book.name(at.Addr())
	return name, int(at.Port()), known
}

// ask waits for the decision, but not longer than the client does. A client that closes its sending half
// before it was decided about is taken for gone, since one that was killed looks the same.
func (g *Gateway) ask(ctx context.Context, client net.Conn, name string, port int) (d Decision, gone bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unwatch := watch(client, cancel)
	d = g.config.Decide(ctx, name, port)
	return d, unwatch()
}

// watch calls gone if the client closes, or closes its sending half. The function that it returns ends
// that, and says whether gone was called. Until then nobody may read from the client.
func watch(client net.Conn, gone func()) func() bool {
	var left bool
	watched := make(chan struct{})
	later := time.AfterFunc(patience, func() { // for nearly all it is over before
		defer close(watched)
		if left = wait(client, hungUp) == nil; left {
			gone()
		}
	})
	return func() bool {
		if later.Stop() {
			return false
		}
		_ = client.SetReadDeadline(longAgo)
		<-watched
		_ = client.SetReadDeadline(time.Time{})
		return left
	}
}

// pass dials, looks at what the client says, and passes it on accordingly. It closes everything.
func (c *connection) pass(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer c.work.Wait()
	defer cancel()
	defer c.end()
	defer context.AfterFunc(ctx, c.end)()
	c.limit(c.g.config.Idle)
	opens := c.g.config.Relay.Opens(c.name, c.port)
	o := c.start(ctx, opens)
	s, why, err := o.look()
	switch {
	case err != nil: // the client is gone
	case s == sawDoubt:
		c.refuse(ctx, why)
	case s == sawHTTP:
		c.relay(ctx, o, c.g.config.Relay.Plain)
	case s == sawTLS:
		c.secure(ctx, o, opens)
	case opens:
		c.refuse(ctx, "a secret is bound to this name, and what was sent is neither TLS nor HTTP, where it could be put in")
	case s == sawPostgres:
		c.postgres(ctx, o)
	default:
		if server, err := o.settle(); err == nil {
			c.splice(server, o.tap())
		}
	}
}

// refuse records why an allowed connection goes no further. That no record was made of it stops nothing
// that is not stopped already.
func (c *connection) refuse(ctx context.Context, why string) {
	c.end()
	c.record(ctx, Decision{Reason: why})
}

func (c *connection) record(ctx context.Context, d Decision) {
	d.Name, d.Port = c.name, c.port
	e, _ := c.g.tally.note(ctx, d)
	c.g.tally.release(e)
}

// relay has HTTP passed on, by one of the relay's two ways.
func (c *connection) relay(ctx context.Context, o *opening, by func(context.Context, relay.Route) error) {
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
		c.record(ctx, Decision{Allowed: true, Failed: true, Reason: "TLS with the program failed: it has to trust the certificate of this sandbox (SSL_CERT_FILE): " + line(err)})
	}
	c.finish()
}

// further connects to the name once more, for a client whose connection stands: that is decided and
// recorded like any other. The client waits meanwhile, as its requests do.
func (c *connection) further(ctx context.Context) (net.Conn, error) {
	d := c.g.config.Decide(ctx, c.name, c.port)
	counts, err := c.g.tally.note(ctx, d)
	switch {
	case err != nil:
		return nil, ruled{err}
	case !d.Allowed:
		c.g.tally.release(counts)
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

// release gives back what was counted under.
func (c *connection) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range append(c.more, c.counts) {
		c.g.tally.release(e)
	}
}

// ruled is an error of the dialer that is a refusal.
type ruled struct{ error }

func (ruled) Is(target error) bool { return target == relay.ErrRefused }

// connect dials the name for the first time.
func (c *connection) connect(ctx context.Context) (net.Conn, error) { return c.dial(ctx, c.counts) }

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
	d := Decision{Allowed: true, Failed: true, Reason: "it is allowed, but no connection came about: " + line(err)}
	var blocked *Blocked
	if errors.As(err, &blocked) {
		d, err = Decision{Reason: err.Error()}, ruled{err}
	} else if ctx.Err() != nil {
		return nil, err
	}
	c.g.tally.discount(counts)
	c.record(ctx, d)
	return nil, err
}

// line makes an error fit for a record: without line breaks, and short.
func line(err error) string {
	s := strings.Join(strings.Fields(err.Error()), " ")
	return s[:min(len(s), 300)]
}

// adopt has server closed with the connection, or at once if that is over.
func (c *connection) adopt(server net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		reset(server)
		return false
	}
	c.g.fit(server)
	c.server = append(c.server, server)
	return true
}

// end resets whatever is still open.
func (c *connection) end() { c.close(reset) }

// finish closes whatever is still open, once all was said.
func (c *connection) finish() { c.close(func(conn net.Conn) { _ = conn.Close() }) }

func (c *connection) close(how func(net.Conn)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
	how(c.client)
	for _, server := range c.server {
		how(server)
	}
}

// reset closes a connection in such a way that the other side gets an error, not an end.
func reset(conn net.Conn) {
	if t, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = t.SetLinger(0)
	}
	_ = conn.Close()
}

// touch says that something moved.
func (c *connection) touch() { c.moved.Store(int64(time.Since(c.born))) }

// limit ends the connection when nothing moves for so long. One timer does for all reads and
// writes, which leave a note only.
func (c *connection) limit(idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.timer = time.AfterFunc(idle, func() {
		left := idle - (time.Since(c.born) - time.Duration(c.moved.Load()))
		if left <= 0 {
			c.end()
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.over {
			c.timer.Reset(left)
		}
	})
}
