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
	remote      net.Addr
	in          *chunkReader
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

func (c *remoteConn) RemoteAddr() net.Addr { return c.remote }

// remoteSocket is the part that remoteConn and remotePacketConn share.
type remoteSocket struct {
	conn    *Conn
	stream  *yamux.Stream
	local   net.Addr
	out     *chunkWriter
	onClose func() // may be nil

	mu         sync.Mutex // of reading
	deadlineMu sync.Mutex // of the stream's deadline
	eof        atomic.Bool
	closed     atomic.Bool
	peerGone   atomic.Bool // the other end is

	readDeadline, writeDeadline atomic.Pointer[time.Time]
}

// Close implements [net.Conn] and [net.PacketConn], as do the next.
func (s *remoteSocket) Close() error {
	if s.closed.Swap(true) {
		return net.ErrClosed
	}
	s.deadlineMu.Lock()
	s.stream.SetDeadline(expired)
	s.deadlineMu.Unlock()
	if s.onClose != nil {
		s.onClose()
	}
	return s.stream.Close()
}

func (s *remoteSocket) LocalAddr() net.Addr { return s.local }

func (s *remoteSocket) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

func (s *remoteSocket) SetReadDeadline(t time.Time) error {
	s.readDeadline.Store(&t)
	s.deadlineMu.Lock()
	defer s.deadlineMu.Unlock()
	if s.closed.Load() || s.eof.Load() {
		return nil
	}
	return s.stream.SetReadDeadline(t)
}

func (s *remoteSocket) SetWriteDeadline(t time.Time) error {
	s.writeDeadline.Store(&t)
	return s.stream.SetWriteDeadline(t)
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
func (s *remoteSocket) ready(deadline *atomic.Pointer[time.Time]) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	if at := deadline.Load(); at != nil && !at.IsZero() && !time.Now().Before(*at) {
		return yamux.ErrTimeout
	}
	return nil
}
