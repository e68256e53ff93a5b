// Package duplex speaks HTTP/2 over one byte stream: a command's channel, or the connection with a container's
// init.
package duplex

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Conn adapts a stream to the connection that net/http needs.
type Conn struct {
	io.ReadWriteCloser
	closed chan struct{}
	once   sync.Once
}

// New returns stream s as a connection, which owns it. Closing s must end pending Read and Write calls.
func New(s io.ReadWriteCloser) *Conn { return &Conn{ReadWriteCloser: s, closed: make(chan struct{})} }

// Closed returns a channel that is closed by Close.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// Close implements [net.Conn], as do the following methods.
func (c *Conn) Close() (err error) {
	c.once.Do(func() {
		close(c.closed)
		err = c.ReadWriteCloser.Close()
	})
	return err
}

// SetWriteDeadline bounds Write if the stream supports it, so that the other side can't block it for ever.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if d, ok := c.ReadWriteCloser.(interface{ SetWriteDeadline(time.Time) error }); ok {
		return d.SetWriteDeadline(t)
	}
	return nil
}

func (c *Conn) SetReadDeadline(time.Time) error { return nil } // net/http calls it only to clear deadlines, and sets none
func (c *Conn) SetDeadline(time.Time) error     { return nil }
func (c *Conn) LocalAddr() net.Addr             { return &net.UnixAddr{Net: "unix"} }
func (c *Conn) RemoteAddr() net.Addr            { return &net.UnixAddr{Net: "unix"} }

// conn is a Conn, or a type that embeds it.
type conn interface {
	net.Conn
	Closed() <-chan struct{}
}

// Serve has server s answer one connection, and returns when that has ended.
func Serve(s *http.Server, c conn) {
	s.Protocols, s.ErrorLog = protocols(), log.New(io.Discard, "", 0)
	s.Serve(&listener{conn: c}) // its error only reports the connection's end
}

// listener accepts one connection, and then blocks until that is closed.
type listener struct {
	conn
	accepted bool
}

// Accept implements [net.Listener]: a server calls it again after each return.
func (l *listener) Accept() (net.Conn, error) {
	if !l.accepted {
		l.accepted = true
		return l.conn, nil
	}
	<-l.Closed()
	return nil, net.ErrClosed
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return l.LocalAddr() }

// Client returns an HTTP client for one connection, with the settings of transport t.
func Client(ctx context.Context, c net.Conn, t *http.Transport) (*http.ClientConn, error) {
	t.Protocols, t.DisableCompression = protocols(), true
	t.DialContext = func(context.Context, string, string) (net.Conn, error) { return c, nil }
	return t.NewClientConn(ctx, "http", "peer:80")
}

// protocols returns HTTP/2 without TLS.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}
