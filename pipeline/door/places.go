package door

import (
	"container/list"
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// places is a listener that bounds its connections per address and in all. If a new connection has no place, another
// one ends: one of the identity with the most, if that has more than a quarter; connections without an identity count
// as one identity. An identity with less than a quarter loses none to others.
type places struct {
	net.Listener
	b       bounds
	proxies Proxies
	log     *slog.Logger

	mu        sync.Mutex
	all       list.List // of *connection, the oldest first
	byAddress map[string]int
	warned    time.Time
}

// connection is a connection that has a place until it closes.
type connection struct {
	net.Conn
	of       *places
	address  string
	hijacked atomic.Bool
	close    func() error

	// Guarded by the mutex of places.
	place *list.Element
	who   string      // identity of its last request; "" is none so far
	idle  bool        // no request is running
	timer *time.Timer // closes an idle connection without an identity
}

func (l *places) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if with := l.acceptConnection(c); with != nil {
			return with, nil
		}
		c.Close()
	}
}

// acceptConnection gives a connection a place, or returns nil.
func (l *places) acceptConnection(conn net.Conn) *connection {
	c := &connection{Conn: conn, of: l, address: l.proxies.addressOf(conn.RemoteAddr())}
	c.close = sync.OnceValue(func() error {
		l.freePlace(c)
		return conn.Close()
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	address, places, taken := c.address, l.b.each, l.byAddress[c.address]
	if address == "" || taken < places {
		address, places, taken = "", l.b.connections, l.all.Len()
	}
	if taken >= places {
		if time.Since(l.warned) > time.Minute {
			l.warned = time.Now()
			l.log.Warn("too many connections: some are ended or refused", "address", c.address, "of_it", l.byAddress[c.address], "all", l.all.Len())
		}
		other := l.chooseVictim(address, places)
		if other == nil {
			return nil
		}
		l.remove(other)
		go other.Close()
	}
	c.place = l.all.PushBack(c)
	l.byAddress[c.address]++
	c.markIdle()
	return c
}

// chooseVictim returns the connection to end of an address, or of all for "", which have so many places; nil is none.
// The caller holds the mutex.
func (l *places) chooseVictim(address string, places int) *connection {
	type group struct {
		n            int
		oldest, idle *connection
	}
	groups := map[string]*group{}
	for e := l.all.Front(); e != nil; e = e.Next() {
		c := e.Value.(*connection)
		if address != "" && c.address != address {
			continue
		}
		g := groups[c.who]
		if g == nil {
			g = &group{oldest: c}
			groups[c.who] = g
		}
		if g.n++; g.idle == nil && c.idle {
			g.idle = c
		}
	}
	most, nobody := &group{n: places / 4}, groups[""]
	for _, g := range groups {
		if g.n > most.n {
			most = g
		}
	}
	switch {
	case most.idle != nil && most != nobody: // new connections without an identity are idle too
		return most.idle
	case most.oldest != nil:
		return most.oldest
	case nobody != nil:
		return nobody.oldest
	}
	return nil
}

func (l *places) freePlace(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(c)
}

// remove releases the place of a connection, once. The caller holds the mutex.
func (l *places) remove(c *connection) {
	if c.place == nil {
		return
	}
	l.all.Remove(c.place)
	c.place = nil
	if l.byAddress[c.address]--; l.byAddress[c.address] == 0 {
		delete(l.byAddress, c.address)
	}
	c.markActive()
}

// markIdle records that no request is running. A connection without an identity gets little time then. The caller
// holds the mutex.
func (c *connection) markIdle() {
	c.idle = true
	if c.who == "" && c.place != nil && c.timer == nil {
		c.timer = time.AfterFunc(c.of.b.unproven, func() { c.Close() })
	}
}

// markActive records that a request is running. The caller holds the mutex.
func (c *connection) markActive() {
	c.idle = false
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// markAuthenticated records the identity of the latest request.
func (c *connection) markAuthenticated(who string) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.who = who
}

// noteState implements [http.Server.ConnState].
func noteState(conn net.Conn, to http.ConnState) {
	c := connectionOf(conn)
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	switch to {
	case http.StateIdle:
		c.markIdle()
	case http.StateActive:
		c.markActive()
	case http.StateHijacked:
		c.hijacked.Store(true)
		c.markActive()
	}
}

type connKey struct{}

// withConnection implements [http.Server.ConnContext].
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connectionOf(conn))
}

// connectionOf returns the connection below TLS.
func connectionOf(conn net.Conn) *connection {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

func (c *connection) Close() error { return c.close() }

// CloseWrite lets a client read the answer to a request that it has not sent completely.
func (c *connection) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// addressOf returns the key that counts a client's connections, as [Proxies.Client] does: "" on a Unix socket and for
// a trusted proxy, whose connections serve many clients.
func (p Proxies) addressOf(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return ""
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if p.trusts(ip) {
		return ""
	}
	return sourceOf(ip)
}
