package door

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

// Bounds of one client and of all. A request is one JSON-RPC message or a small file; nginx and Go's own servers allow as many bytes
// of headers, or more.
const (
	maxHeader  = 16 << 10 // bytes; net/http adds 4 KiB
	maxBody    = 32 << 20 // bytes
	maxStreams = 100      // requests at once on one connection of HTTP/2: the least that RFC 9113 recommends
	writeSize  = 64 << 10 // bytes of an answer that the time for a write is for
)

// bounds are those that tests can't wait for.
type bounds struct {
	connections int           // in all: a descriptor each
	each        int           // of one address: an agent has a stream and some requests, and several may be behind one address
	header      time.Duration // until all headers of a request are there
	idle        time.Duration // between requests
	write       time.Duration // of writeSize bytes: a client that doesn't read holds what the server has written
	body        time.Duration // until a body is there, and a second more for each rate bytes
	rate        int64
}

var usual = bounds{connections: 1024, each: 256, header: 10 * time.Second, idle: 2 * time.Minute, write: 30 * time.Second, body: 30 * time.Second, rate: 64 << 10}

// connections is a listener that closes the connections that are too many.
type connections struct {
	net.Listener
	b   bounds
	log *slog.Logger

	mu        sync.Mutex
	all       int
	byAddress map[string]int
	warned    time.Time
}

func (l *connections) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address := addressOf(c.RemoteAddr())
		if l.enter(address) {
			return &connection{c, sync.OnceFunc(func() { l.leave(address) })}, nil
		}
		c.Close()
	}
}

func (l *connections) enter(address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.b.connections || address != "" && l.byAddress[address] >= l.b.each {
		if time.Since(l.warned) > time.Minute {
			l.warned = time.Now()
			l.log.Warn("too many connections: some are refused", "address", address, "of_it", l.byAddress[address], "all", l.all)
		}
		return false
	}
	l.all++
	l.byAddress[address]++
	return true
}

func (l *connections) leave(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.byAddress[address]--; l.byAddress[address] == 0 {
		delete(l.byAddress, address)
	}
}

// addressOf returns the address of a client, of IPv6 its /64 as one machine has all of that, and "" on a Unix socket.
func addressOf(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return ""
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	prefix, _ := ip.Prefix(64) // only of IPv4 that is too long
	return prefix.String()
}

// connection is one that is counted until it closes.
type connection struct {
	net.Conn
	leave func()
}

func (c *connection) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite lets net/http have a client read the answer to a request that it hasn't finished.
func (c *connection) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
