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

// watchDelay is the duration of a step after which we begin to watch whether the client still waits.
const watchDelay = 20 * time.Millisecond

// connection is an allowed connection of a program to a name.
type connection struct {
	g       *Gateway
	client  net.Conn
	name    string
	port    int
	held    []byte // what was read of the client, for the prelude
	ended   int    // calls of the gateway's End before the decision about it
	counts  *entry
	started time.Time
	moved   atomic.Int64 // when something last moved, after started

	mu     sync.Mutex
	over   bool
	server []net.Conn // those that are open
	more   []*entry   // of connections to the name after the first
	timer  *time.Timer
	work   sync.WaitGroup
}

// maxRefusing bounds the connections beyond a limit that stay open until their refusal is recorded: a program can make
// any number of them while the log is busy, and each takes a descriptor.
const maxRefusing = 8

// full refuses a connection beyond a limit.
func (g *Gateway) full(ctx context.Context, client net.Conn, why string) {
	d := Decision{Reason: why}
	d.Name, d.Port, _ = g.meant(client.LocalAddr())
	defer g.refusing.Add(-1)
	if g.refusing.Add(1) > maxRefusing {
		reset(client)
		g.counters.refuse(ctx, d)
		return
	}
	g.refuse(ctx, client, d)
}

// refuse counts a refusal before the program gets it: the program may be the last of its run, whose records are taken
// then.
func (g *Gateway) refuse(ctx context.Context, client net.Conn, d Decision) {
	g.counters.refuse(ctx, d)
	reset(client)
}

// serve decides about a connection and passes it on.
func (g *Gateway) serve(ctx context.Context, client net.Conn) {
	ended := g.ends()
	name, port, known := g.meant(client.LocalAddr())
	d := Decision{Name: name, Port: port}
	var gone bool
	switch {
	case !known && port > 0 && strings.HasPrefix(client.LocalAddr().String(), "127.0.0.1:") && g.config.Decide(ctx, Local, port).Allowed:
		name = Local
		d, gone = g.ask(ctx, client, name, port)
	case !known:
		d.Name = "127.0.0.0/8" // one record for all of them: a program can try millions
		d.Reason = "an address that no name stands for: connect to names"
	default:
		d, gone = g.ask(ctx, client, name, port)
	}
	if !d.Allowed || gone {
		g.refuse(ctx, client, d)
		return
	}
	counts, err := g.counters.note(ctx, d)
	if err != nil {
		g.counters.release(g.counters.hold(Decision{Name: d.Name, Port: d.Port, Reason: err.Error()}))
		reset(client)
		return
	}
	(&connection{g: g, client: client, name: name, port: port, ended: ended, counts: counts}).serve(ctx)
}

// serve passes the connection on until it ends.
func (c *connection) serve(ctx context.Context) {
	c.started = time.Now()
	defer c.release()
	c.g.fit(c.client)
	if !c.g.add(c) {
		c.refuse(ctx, "what may be reached has changed since this was decided")
		return
	}
	defer c.g.remove(c)
	c.pass(ctx)
}

// meant returns the name and the port that the client connected to. The name of an unknown address is the address.
func (g *Gateway) meant(local net.Addr) (name string, port int, known bool) {
	at, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return quote(local.String()), 0, false
	}
	name, known = g.addresses.name(at.Addr())
	return name, int(at.Port()), known
}

// ask waits for the decision, but not longer than the client does. A client that closes its sending half before the
// decision counts as gone, since a killed client looks the same.
func (g *Gateway) ask(ctx context.Context, client net.Conn, name string, port int) (d Decision, gone bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unwatch := watch(client, cancel)
	d = g.config.Decide(ctx, name, port)
	return d, unwatch()
}

// watch calls gone if the client closes, or closes its sending half. The returned function stops watching, and reports
// whether gone was called. Until then nobody may read from the client.
func watch(client net.Conn, gone func()) func() bool {
	var left bool
	watched := make(chan struct{})
	later := time.AfterFunc(watchDelay, func() { // for nearly all it is over before
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

// pass dials, detects the client's protocol, and passes the connection on accordingly. It closes everything.
func (c *connection) pass(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer c.work.Wait()
	defer cancel()
	defer c.end()
	defer context.AfterFunc(ctx, c.end)()
	c.limit(c.g.config.Idle)
	opens := c.g.config.Relay.TerminatesTLS(c.name, c.port)
	if c.name == Local && !opens {
		// Whoever opened a port opened all that is behind it, so the request need not fit a name.
		if server, err := c.dial(ctx, c.counts); err == nil {
			c.splice(c.tapped(server, nil), &tap{Conn: c.client, c: c})
		}
		return
	}
	o := c.start(ctx, opens)
	s, why, err := o.sniff()
	switch {
	case err != nil: // the client is gone
	case s == protoRefused:
		c.refuse(ctx, why)
	case s == protoHTTP:
		c.relay(ctx, o, c.g.config.Relay.Serve)
	case s == protoTLS:
		c.secure(ctx, o, opens)
	case opens:
		c.refuse(ctx, "all that is sent to this name must be read, since a secret is bound to it or it may only be fetched from, and this is neither TLS nor HTTP")
	case s == protoPostgres:
		c.postgres(ctx, o)
	default:
		if server, err := o.settle(); err == nil {
			c.splice(server, o.tap())
		}
	}
}

// refuse records why an allowed connection goes no further, and closes it even if the record fails.
func (c *connection) refuse(ctx context.Context, why string) {
	c.record(ctx, Decision{Reason: why})
	c.end()
}

func (c *connection) record(ctx context.Context, d Decision) {
	d.Name, d.Port = c.name, c.port
	c.g.counters.refuse(ctx, d)
}

// release releases the connection's counters.
func (c *connection) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range append(c.more, c.counts) {
		c.g.counters.release(e)
	}
}

// adopt closes server together with the connection, or at once if the connection is closed.
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

// end resets all open sides.
func (c *connection) end() { c.close(reset) }

// finish closes all open sides after the last byte was passed on.
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

// reset closes a connection so that the peer gets an error instead of an end of file.
func reset(conn net.Conn) {
	if t, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = t.SetLinger(0)
	}
	_ = conn.Close()
}

// touch notes that bytes moved.
func (c *connection) touch() { c.moved.Store(int64(time.Since(c.started))) }

// limit ends the connection after an idle time. One timer serves all reads and writes, which only store the time.
func (c *connection) limit(idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.timer = time.AfterFunc(idle, func() {
		left := idle - (time.Since(c.started) - time.Duration(c.moved.Load()))
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
