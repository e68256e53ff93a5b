package call

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"
)

// conn is a connection that a program has made.
type conn struct {
	far
	local, remote net.Addr
	out           *chunks
	in            *unchunk
	left          func()

	mu    sync.Mutex // of reading
	ended atomic.Bool
	dmu   sync.Mutex // of its deadline
	shut  atomic.Bool
}

// Read implements [net.Conn].
func (c *conn) Read(b []byte) (int, error) {
	if err := c.before(&c.readBy); err != nil {
		return 0, c.explain("read", c.remote, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.in.Read(b)
	switch {
	case err == nil:
		return n, nil
	case isEOF(err):
		c.linger()
		return n, err
	case !errors.Is(err, yamux.ErrTimeout) && !c.line.ended():
		c.gone.Store(true)
	}
	return n, c.explain("read", c.remote, err)
}

// linger waits, once the program has said all, until it is gone: then what is written to it goes nowhere.
func (c *conn) linger() {
	if c.ended.Swap(true) {
		return
	}
	c.dmu.Lock()
	if !c.closed.Load() {
		c.stream.SetReadDeadline(time.Time{})
	}
	c.dmu.Unlock()
	go func() {
		c.stream.Read(make([]byte, 1))
		c.gone.Store(true)
		c.stream.SetWriteDeadline(expired)
	}()
}

// Write implements [net.Conn].
func (c *conn) Write(b []byte) (int, error) {
	if err := c.before(&c.writeBy); err != nil {
		return 0, c.explain("write", c.remote, err)
	}
	if c.gone.Load() || c.shut.Load() {
		return 0, &net.OpError{Op: "write", Net: "tcp", Addr: c.remote, Err: syscall.EPIPE}
	}
	n, err := c.out.Write(b)
	return n, c.explain("write", c.remote, err)
}

// CloseWrite says that no more will be written.
func (c *conn) CloseWrite() error {
	c.shut.Store(true)
	return c.explain("close", c.remote, c.out.end())
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	c.dmu.Lock()
	c.stream.SetDeadline(expired)
	c.dmu.Unlock()
	c.left()
	return c.stream.Close()
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error {
	c.readBy.set(t)
	c.dmu.Lock()
	defer c.dmu.Unlock()
	if c.closed.Load() || c.ended.Load() {
		return nil
	}
	return c.stream.SetReadDeadline(t)
}
