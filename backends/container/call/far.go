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

// far is what a connection and a socket for packets have in common.
type far struct {
	line    *Line
	stream  *yamux.Stream
	closed  atomic.Bool
	gone    atomic.Bool // the other end is
	readBy  moment
	writeBy moment
}

// moment is a deadline.
type moment struct{ at atomic.Int64 } // Unix nanoseconds, 0 for none

func (m *moment) set(t time.Time) {
	if t.IsZero() {
		m.at.Store(0)
		return
	}
	m.at.Store(t.UnixNano())
}

func (m *moment) passed() bool {
	at := m.at.Load()
	return at != 0 && time.Now().UnixNano() >= at
}

// explain puts an error of the stream into the words of package net.
func (f *far) explain(op string, at net.Addr, err error) error {
	switch {
	case err == nil:
		return nil
	case f.closed.Load():
		err = net.ErrClosed
	case f.line.ended():
		err = f.line.lost(nil)
	case f.gone.Load() && op == "write":
		err = syscall.EPIPE
	case errors.Is(err, yamux.ErrTimeout):
		err = os.ErrDeadlineExceeded
	case f.gone.Load():
		err = syscall.ECONNRESET
	default:
		err = f.line.lost(err)
	}
	return &net.OpError{Op: op, Net: at.Network(), Addr: at, Err: err}
}

// before says why there can be no reading or writing.
func (f *far) before(m *moment) error {
	if f.closed.Load() {
		return net.ErrClosed
	}
	if m.passed() {
		return yamux.ErrTimeout
	}
	return nil
}

func (f *far) SetWriteDeadline(t time.Time) error {
	f.writeBy.set(t)
	return f.stream.SetWriteDeadline(t)
}
