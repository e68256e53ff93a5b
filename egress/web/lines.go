package web

import (
	"net"
	"sync"
)

// connections are the connections of one call. They end with it: a transport keeps one of HTTP 2 whose last answer was given
// up, for as long as the server likes.
type connections struct {
	mu   sync.Mutex
	all  []net.Conn
	over bool
}

// keep remembers a connection, unless the call is over: then it is closed.
func (l *connections) keep(c net.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		c.Close()
		return net.ErrClosed
	}
	l.all = append(l.all, c)
	return nil
}

// close closes all of them. Some are closed already.
func (l *connections) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	for _, c := range l.all {
		c.Close()
	}
}
