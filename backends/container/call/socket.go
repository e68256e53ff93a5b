package call

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"
)

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
