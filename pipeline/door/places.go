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

// places is a listener whose connections have places, of which an address has some, and all together. Where there is
// none for a new one, another ends: one of the identity that has most, if these are more than a quarter; those that
// have proved none count as one. Who keeps below a quarter loses none to others.
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

// connection is one that has a place until it closes.
type connection struct {
	net.Conn
	of       *places
	address  string
	hijacked atomic.Bool
	close    func() error

	// Guarded by the mutex of places.
	place *list.Element
	who   string      // whose request it brought last; "" has proved nothing
	idle  bool        // no request is under way
	timer *time.Timer // of one that has proved nothing, while it is idle
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

// chooseVictim returns the connection that ends first of an address, or for "" of all, which have so many places; nil
// is none. The mutex is held.
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
	case most.idle != nil && most != nobody: // the new ones of these are idle, too
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

// remove takes the place of a connection, once. The mutex is held.
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

// markIdle notes that no request is under way. One that has proved nothing has little time then. The mutex is held.
func (c *connection) markIdle() {
	c.idle = true
	if c.who == "" && c.place != nil && c.timer == nil {
		c.timer = time.AfterFunc(c.of.b.unproven, func() { c.Close() })
	}
}

// markActive notes that there is one. The mutex is held.
func (c *connection) markActive() {
	c.idle = false
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// markAuthenticated notes that a request of an identity has come.
func (c *connection) markAuthenticated(who string) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.who = who
}

// noteState is for [http.Server.ConnState].
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

// withConnection is for [http.Server.ConnContext].
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connectionOf(conn))
}

// connectionOf returns the connection that is below TLS.
func connectionOf(conn net.Conn) *connection {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

func (c *connection) Close() error { return c.close() }

// CloseWrite lets net/http have a client read the answer to a request that it hasn't finished.
func (c *connection) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// addressOf returns what a client's connections are counted by, as [Proxies.Client] does: "" on a Unix socket and for a
// trusted proxy, whose connections are of many clients.
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
