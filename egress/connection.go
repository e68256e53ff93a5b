package egress

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// watchDelay is the duration of a step after which the gateway watches whether the client still waits.
const watchDelay = 20 * time.Millisecond

// connection is an allowed connection of a program to a name.
type connection struct {
	g              *Gateway
	client         net.Conn
	name           string
	port           int
	held           []byte // bytes read from the client, for the prelude
	closingsBefore int    // calls of CloseDenied before the decision about the connection
	counts         *entry
	started        time.Time
	lastActivity   atomic.Int64 // time of the last bytes, since started

	mu             sync.Mutex
	over           bool
	servers        []net.Conn // open server connections
	furtherEntries []*entry   // of further connections to the name
	timer          *time.Timer
	work           sync.WaitGroup
}

// maxRefusing bounds the connections beyond a limit that stay open until their refusal is recorded: a program can make
// any number of them while the log is busy, and each takes a descriptor.
const maxRefusing = 8

// refuseOverLimit refuses a connection beyond a limit.
func (g *Gateway) refuseOverLimit(ctx context.Context, client net.Conn, why string) {
	d := Decision{Reason: why}
	d.Name, d.Port, _ = g.targetOf(client.LocalAddr())
	defer g.refusing.Add(-1)
	if g.refusing.Add(1) > maxRefusing {
		reset(client)
		g.counters.countRefusal(ctx, d)
		return
	}
	g.refuseClient(ctx, client, d)
}

// refuseClient counts a refusal before the program sees it, since the run may end right after, and its records are
// taken then.
func (g *Gateway) refuseClient(ctx context.Context, client net.Conn, d Decision) {
	g.counters.countRefusal(ctx, d)
	reset(client)
}

// serveClient decides about a connection and forwards it.
func (g *Gateway) serveClient(ctx context.Context, client net.Conn) {
	ended := g.closings()
	name, port, known := g.targetOf(client.LocalAddr())
	d := Decision{Name: name, Port: port}
	var gone bool
	switch {
	case !known && port > 0 && strings.HasPrefix(client.LocalAddr().String(), "127.0.0.1:") && g.config.Decide(ctx, Local, port).Allowed:
		name = Local
		d, gone = g.decideWhileConnected(ctx, client, name, port)
	case !known:
		d.Name = "127.0.0.0/8" // one record for all: a program can try millions
		d.Reason = "the address belongs to no name: connect to names"
	default:
		d, gone = g.decideWhileConnected(ctx, client, name, port)
	}
	if !d.Allowed || gone {
		g.refuseClient(ctx, client, d)
		return
	}
	counts, err := g.counters.countDecision(ctx, d)
	if err != nil {
		g.counters.release(g.counters.holdEntry(Decision{Name: d.Name, Port: d.Port, Reason: err.Error()}))
		reset(client)
		return
	}
	(&connection{g: g, client: client, name: name, port: port, closingsBefore: ended, counts: counts}).serve(ctx)
}

// serve forwards the connection until it ends.
func (c *connection) serve(ctx context.Context) {
	c.started = time.Now()
	defer c.release()
	c.g.shrinkBuffers(c.client)
	if !c.g.register(c) {
		c.recordRefusal(ctx, "what may be reached has changed since this was decided")
		return
	}
	defer c.g.unregister(c)
	c.passOn(ctx)
}

// targetOf returns the name and port of the client's connection. The name of an unknown address is the address.
func (g *Gateway) targetOf(local net.Addr) (name string, port int, known bool) {
	at, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return quote(local.String()), 0, false
	}
	name, known = g.addresses.name(at.Addr())
	return name, int(at.Port()), known
}

// decideWhileConnected waits for the decision while the client waits. A client that closes its sending half before the
// decision counts as gone, since a killed client looks the same.
func (g *Gateway) decideWhileConnected(ctx context.Context, client net.Conn, name string, port int) (d Decision, gone bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unwatch := watchHangUp(client, cancel)
	d = g.config.Decide(ctx, name, port)
	return d, unwatch()
}

// watchHangUp calls gone if the client closes, or closes its sending half. The returned function stops watching, and
// reports whether gone was called. Until then the caller must not read from the client.
func watchHangUp(client net.Conn, gone func()) func() bool {
	var left bool
	watched := make(chan struct{})
	later := time.AfterFunc(watchDelay, func() { // most decisions are faster
		defer close(watched)
		if left = waitForEvent(client, hungUp) == nil; left {
			gone()
		}
	})
	return func() bool {
		if later.Stop() {
			return false
		}
		_ = client.SetReadDeadline(pastDeadline)
		<-watched
		_ = client.SetReadDeadline(time.Time{})
		return left
	}
}

// passOn dials, detects the client's protocol, and forwards the connection accordingly. It closes all connections.
func (c *connection) passOn(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer c.work.Wait()
	defer cancel()
	defer c.resetAll()
	defer context.AfterFunc(ctx, c.resetAll)()
	c.endWhenIdle(c.g.config.Idle)
	opens := c.g.config.Relay.TerminatesTLS(c.name, c.port)
	if c.name == Local && !opens {
		// The operator who opened a local port opened all of its server, so the request need not match a name.
		if server, err := c.dial(ctx, c.counts); err == nil {
			c.splice(c.newServerTap(server, nil), &tap{Conn: c.client, c: c})
		}
		return
	}
	o := c.startPrelude(ctx, opens)
	s, why, err := o.sniffClient()
	switch {
	case err != nil: // the client is gone
	case s == protoRefused:
		c.recordRefusal(ctx, why)
	case s == protoHTTP:
		c.passHTTP(ctx, o, c.g.config.Relay.Serve)
	case s == protoTLS:
		c.passTLS(ctx, o, opens)
	case opens:
		c.recordRefusal(ctx, "all that is sent to this name must be read, since a secret is bound to it or it may only be fetched from, and "+
			"this is neither TLS nor HTTP")
	case s == protoPostgres:
		c.passPostgres(ctx, o)
	default:
		if server, err := o.waitForServer(); err == nil {
			c.splice(server, o.newClientTap())
		}
	}
}

// recordRefusal records why an allowed connection is refused later, and closes it even if the record fails.
func (c *connection) recordRefusal(ctx context.Context, why string) {
	c.record(ctx, Decision{Reason: why})
	c.resetAll()
}

func (c *connection) record(ctx context.Context, d Decision) {
	d.Name, d.Port = c.name, c.port
	c.g.counters.countRefusal(ctx, d)
}

// release releases the connection's counters.
func (c *connection) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range append(c.furtherEntries, c.counts) {
		c.g.counters.release(e)
	}
}

// attachServer makes server close with the connection; it closes it at once if the connection is closed.
func (c *connection) attachServer(server net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		reset(server)
		return false
	}
	c.g.shrinkBuffers(server)
	c.servers = append(c.servers, server)
	return true
}

// resetAll resets all open sides.
func (c *connection) resetAll() { c.closeWith(reset) }

// closeAll closes all open sides after the last byte was forwarded.
func (c *connection) closeAll() { c.closeWith(func(conn net.Conn) { _ = conn.Close() }) }

func (c *connection) closeWith(how func(net.Conn)) {
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
	for _, server := range c.servers {
		how(server)
	}
}

// reset closes a connection so that the peer gets an error instead of an end of file.
func reset(conn net.Conn) {
	if t, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = t.SetLinger(0)
	}
	_ = conn.Close()
}

// noteActivity records that bytes moved.
func (c *connection) noteActivity() { c.lastActivity.Store(int64(time.Since(c.started))) }

// endWhenIdle ends the connection after an idle time. One timer serves all reads and writes, which only store the time.
func (c *connection) endWhenIdle(idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.timer = time.AfterFunc(idle, func() {
		left := idle - (time.Since(c.started) - time.Duration(c.lastActivity.Load()))
		if left <= 0 {
			c.resetAll()
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.over {
			c.timer.Reset(left)
		}
	})
}
