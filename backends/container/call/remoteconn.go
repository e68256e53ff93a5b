package call

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"
)

// remoteConn is a connection that a program has made, carried over a stream.
type remoteConn struct {
	remoteSocket
	local, remote net.Addr
	out           *chunkWriter
	in            *chunkReader
	onClose       func()

	mu          sync.Mutex // of reading
	eof         atomic.Bool
	deadlineMu  sync.Mutex // of its deadline
	writeClosed atomic.Bool
}

// Read implements [net.Conn].
func (c *remoteConn) Read(b []byte) (int, error) {
	if err := c.ready(&c.readDeadline); err != nil {
		return 0, c.netError("read", c.remote, err)
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
	case !errors.Is(err, yamux.ErrTimeout) && !c.conn.ended():
		c.peerGone.Store(true)
	}
	return n, c.netError("read", c.remote, err)
}

// linger waits, once the program has closed its direction, until the connection is gone: later writes then fail.
func (c *remoteConn) linger() {
	if c.eof.Swap(true) {
		return
	}
	c.deadlineMu.Lock()
	if !c.closed.Load() {
		c.stream.SetReadDeadline(time.Time{})
	}
	c.deadlineMu.Unlock()
	go func() {
		c.stream.Read(make([]byte, 1))
		c.peerGone.Store(true)
		c.stream.SetWriteDeadline(expired)
	}()
}

// Write implements [net.Conn].
func (c *remoteConn) Write(b []byte) (int, error) {
	if err := c.ready(&c.writeDeadline); err != nil {
		return 0, c.netError("write", c.remote, err)
	}
	if c.peerGone.Load() || c.writeClosed.Load() {
		return 0, &net.OpError{Op: "write", Net: "tcp", Addr: c.remote, Err: syscall.EPIPE}
	}
	n, err := c.out.Write(b)
	return n, c.netError("write", c.remote, err)
}

// CloseWrite ends the direction towards the program.
func (c *remoteConn) CloseWrite() error {
	c.writeClosed.Store(true)
	return c.netError("close", c.remote, c.out.end())
}

// Close implements [net.Conn].
func (c *remoteConn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	c.deadlineMu.Lock()
	c.stream.SetDeadline(expired)
	c.deadlineMu.Unlock()
	c.onClose()
	return c.stream.Close()
}

func (c *remoteConn) LocalAddr() net.Addr  { return c.local }
func (c *remoteConn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements [net.Conn].
func (c *remoteConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.Conn].
func (c *remoteConn) SetReadDeadline(t time.Time) error {
	c.readDeadline.set(t)
	c.deadlineMu.Lock()
	defer c.deadlineMu.Unlock()
	if c.closed.Load() || c.eof.Load() {
		return nil
	}
	return c.stream.SetReadDeadline(t)
}

// remoteSocket is the part that remoteConn and remotePacketConn share.
type remoteSocket struct {
	conn          *Conn
	stream        *yamux.Stream
	closed        atomic.Bool
	peerGone      atomic.Bool // the other end is
	readDeadline  deadline
	writeDeadline deadline
}

// deadline is a read or write deadline.
type deadline struct{ at atomic.Int64 } // Unix nanoseconds, 0 for none

func (m *deadline) set(t time.Time) {
	if t.IsZero() {
		m.at.Store(0)
		return
	}
	m.at.Store(t.UnixNano())
}

func (m *deadline) passed() bool {
	at := m.at.Load()
	return at != 0 && time.Now().UnixNano() >= at
}

// netError translates an error of the stream into one of package net.
func (s *remoteSocket) netError(op string, at net.Addr, err error) error {
	switch {
	case err == nil:
		return nil
	case s.closed.Load():
		err = net.ErrClosed
	case s.conn.ended():
		err = s.conn.lostError(nil)
	case s.peerGone.Load() && op == "write":
		err = syscall.EPIPE
	case errors.Is(err, yamux.ErrTimeout):
		err = os.ErrDeadlineExceeded
	case s.peerGone.Load():
		err = syscall.ECONNRESET
	default:
		err = s.conn.lostError(err)
	}
	return &net.OpError{Op: op, Net: at.Network(), Addr: at, Err: err}
}

// ready returns why the socket can't be read or written, nil if it can.
func (s *remoteSocket) ready(m *deadline) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if m.passed() {
		return yamux.ErrTimeout
	}
	return nil
}

func (s *remoteSocket) SetWriteDeadline(t time.Time) error {
	s.writeDeadline.set(t)
	return s.stream.SetWriteDeadline(t)
}
