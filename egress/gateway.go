package egress

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress/relay"
)

const (
	// DefaultIdle is longer than useful answers of servers and databases take, and bounds how long a forgotten connection
	// holds two sockets.
	DefaultIdle = 10 * time.Minute
	// DefaultConnections is the default of Config.Connections: more than browsers and crawlers use.
	DefaultConnections = 4096
)

// Config configures a gateway.
type Config struct {
	// Decide returns whether port of name is allowed now. It may wait for a person until ctx ends. Port 0 is a DNS query
	// about any port: then it must not wait.
	Decide func(ctx context.Context, name string, port int) Decision
	// Decided is called at the first occurrence of each decision since TakeRecords, before anything leaves. An error
	// refuses an allowed connection, and Decided is called again the next time. It may be called concurrently, and its ctx
	// outlives the connection, so that the decision can be recorded.
	Decided func(ctx context.Context, d Decision) error

	// Proxy makes each of Sockets.Ports an HTTP proxy, which connects to any port of names and addresses. The bytes in a
	// tunnel are checked like others.
	Proxy bool

	Dialer *Dialer      // connects to names; nil is one with the machine's resolver and public addresses only
	Dial   dialFunc     // replaces Dialer, and is then responsible for refusing addresses
	Relay  *relay.Relay // forwards HTTP; nil is a relay without secrets

	Idle        time.Duration // a connection is closed after this time without bytes; 0 is DefaultIdle
	Connections int           // at once; 0 is DefaultConnections
	Budget      *Budget       // bounds the descriptors of all gateways that share it: each connection takes two
}

// Sockets are the open sockets of a gateway inside a sandbox's network namespace, its only sockets.
type Sockets struct {
	DNS       net.PacketConn // UDP
	DNSStream net.Listener   // TCP
	Ports     []net.Listener // TCP, each on one port of all of 127/8
}

// Gateway is the only network access of a sandbox.
type Gateway struct {
	config    Config
	sockets   Sockets
	addresses addressMap
	counters  counters
	buffers   sync.Pool

	open     atomic.Int64 // connections
	refusing atomic.Int64 // open connections beyond a limit

	mu           sync.Mutex
	allowed      map[*connection]struct{} // allowed connections
	closingCount int                      // calls of CloseDenied

	stop context.CancelFunc
	work sync.WaitGroup
}

// dialFunc is Dialer.Dial: it resolves a name, and connects to an allowed address.
type dialFunc func(ctx context.Context, name string, port int) (net.Conn, error)

// Open takes ownership of the sockets, and serves on them until Close.
func Open(c Config, s Sockets) *Gateway {
	if c.Dial == nil {
		c.Dial = cmp.Or(c.Dialer, &Dialer{}).Dial
	}
	c.Idle = cmp.Or(max(c.Idle, 0), DefaultIdle)
	c.Connections = cmp.Or(max(c.Connections, 0), DefaultConnections)
	g := &Gateway{config: c, sockets: s, allowed: map[*connection]struct{}{}}
	g.counters.decided = c.Decided
	g.buffers.New = func() any { return new([bufferSize]byte) }
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	g.startDNS(ctx)
	for _, l := range s.Ports {
		g.work.Go(func() { g.acceptAll(ctx, l) })
	}
	return g
}

// startDNS starts the DNS server.
func (g *Gateway) startDNS(ctx context.Context) {
	n := &dnsServer{
		decide: g.config.Decide,
		decided: func(ctx context.Context, d Decision) {
			if !d.Allowed { // allowed queries count when the program connects
				g.counters.countRefusal(ctx, d)
			}
		},
		addresses: &g.addresses,
	}
	if g.sockets.DNS != nil {
		g.work.Go(func() { n.serveUDP(ctx, g.sockets.DNS) })
	}
	if g.sockets.DNSStream != nil {
		g.work.Go(func() { n.serveTCP(ctx, g.sockets.DNSStream) })
	}
}

// acceptAll serves the connections of a listener until it is closed.
func (g *Gateway) acceptAll(ctx context.Context, l net.Listener) {
	for {
		client, err := l.Accept()
		if retryAfter(ctx, err) {
			return
		}
		if err != nil { // such as no descriptors: clients wait in the listener's queue meanwhile
			continue
		}
		n := g.open.Add(1)
		g.work.Go(func() {
			defer g.open.Add(-1)
			if n > int64(g.config.Connections) {
				g.refuseOverLimit(ctx, client, fmt.Sprintf("the limit of %d connections is reached: close some", g.config.Connections))
				return
			}
			if !g.config.Budget.reserve(descriptorsPerConn, (n-1)*descriptorsPerConn) {
				g.refuseOverLimit(ctx, client, "the server has as many connections as it can have: try again later")
				return
			}
			defer g.config.Budget.release(descriptorsPerConn)
			if g.config.Proxy {
				g.serveProxy(ctx, client)
			} else {
				g.serveClient(ctx, client)
			}
		})
	}
}

// descriptorsPerConn is the number of descriptors of a connection: its two ends.
const descriptorsPerConn = 2

// CloseDenied closes the connections to names for which may returns false, and those that were decided before the call
// but are not registered yet.
func (g *Gateway) CloseDenied(may func(name string, port int) bool) {
	g.mu.Lock()
	g.closingCount++
	standing := slices.Collect(maps.Keys(g.allowed))
	g.mu.Unlock()
	for _, c := range standing {
		if !may(c.name, c.port) {
			c.resetAll()
		}
	}
}

// register adds a connection for CloseDenied. It returns false if CloseDenied was called since the decision about the
// connection began.
func (g *Gateway) register(c *connection) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.closingsBefore != g.closingCount {
		return false
	}
	g.allowed[c] = struct{}{}
	return true
}

// closings returns the number of CloseDenied calls.
func (g *Gateway) closings() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closingCount
}

func (g *Gateway) unregister(c *connection) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.allowed, c)
}

// manyConnections is the number of a sandbox's connections beyond which each gets smaller kernel buffers. That memory
// is shared by the machine (tcp_mem): a thousand slow readers of an endless source used all of it.
const (
	manyConnections = 64
	crowdBuffer     = 128 << 10 // bytes in each direction; at 50 ms latency, 2.5 MB/s
)

// shrinkBuffers shrinks a connection's buffers if there are many connections.
func (g *Gateway) shrinkBuffers(conn net.Conn) {
	if t, ok := conn.(*net.TCPConn); ok && g.open.Load() > manyConnections {
		_ = t.SetReadBuffer(crowdBuffer)
		_ = t.SetWriteBuffer(crowdBuffer)
	}
}

// TakeRecords returns the decisions since the last call, in the order of their first occurrence, with the bytes since
// then. A long connection is in each result during which bytes moved, with a Count of 0 after the first. It may be
// called before and after Close.
func (g *Gateway) TakeRecords() []Record { return g.counters.takeRecords() }

// Close closes all connections and waits for them.
func (g *Gateway) Close() {
	g.stop()
	var all []io.Closer
	if g.sockets.DNS != nil {
		all = append(all, g.sockets.DNS)
	}
	if g.sockets.DNSStream != nil {
		all = append(all, g.sockets.DNSStream)
	}
	for _, l := range g.sockets.Ports {
		all = append(all, l)
	}
	for _, s := range all {
		// Closing a socket waits for its reader, so a deadline wakes all readers first.
		if d, ok := s.(interface{ SetDeadline(time.Time) error }); !ok || d.SetDeadline(time.Unix(1, 0)) != nil {
			_ = s.Close()
		}
	}
	g.work.Wait()
	for _, s := range all {
		_ = s.Close()
	}
}

// Budget bounds the descriptors of all gateways of a process, so that many busy sandboxes leave some for the log and
// for callers. A nil Budget is unlimited.
type Budget struct{ left atomic.Int64 }

// NewBudget returns a budget of half of this process's limit of descriptors.
func NewBudget() *Budget {
	b := &Budget{}
	b.left.Store(1 << 20)
	if limit := descriptorLimit(); limit > 0 {
		b.left.Store(int64(limit / 2))
	}
	return b
}

// reserve reserves n descriptors for a gateway that holds held, and reports whether it could. A gateway may not have
// more than remains for the others. The caller must release the reservation.
func (b *Budget) reserve(n, held int64) bool {
	if b == nil {
		return true
	}
	if b.left.Add(-n) >= held {
		return true
	}
	b.left.Add(n)
	return false
}

func (b *Budget) release(n int64) {
	if b != nil {
		b.left.Add(n)
	}
}
