package call

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// mail is a socket for packets that is far away.
type mail struct {
	far
	at  net.Addr
	out *chunks
	mu  sync.Mutex
	in  *packets
}

func newMail(l *Line, stream *yamux.Stream) *mail {
	m := &mail{at: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: backends.DNSPort}, out: newChunks(stream, mostChunk), in: newPackets(stream)}
	m.line, m.stream = l, stream
	return m
}

// ReadFrom implements [net.PacketConn].
func (m *mail) ReadFrom(b []byte) (int, net.Addr, error) {
	if err := m.before(&m.readBy); err != nil {
		return 0, nil, m.explain("read", m.at, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	packet, from, err := m.in.next()
	if err != nil {
		return 0, nil, m.explain("read", m.at, err)
	}
	return copy(b, packet), net.UDPAddrFromAddrPort(from), nil
}

// WriteTo implements [net.PacketConn].
func (m *mail) WriteTo(b []byte, to net.Addr) (int, error) {
	if err := m.before(&m.writeBy); err != nil {
		return 0, m.explain("write", m.at, err)
	}
	if len(b) > mostPacket || addrPort(to) == (netip.AddrPort{}) {
		return 0, fmt.Errorf("write %d bytes to %v: %w", len(b), to, syscall.EINVAL)
	}
	return len(b), m.explain("write", m.at, m.out.packet(stamp(to), b))
}

// Close implements [net.PacketConn].
func (m *mail) Close() error {
	if m.closed.Swap(true) {
		return net.ErrClosed
	}
	m.stream.SetDeadline(expired)
	return m.stream.Close()
}

func (m *mail) LocalAddr() net.Addr { return m.at }

// SetDeadline implements [net.PacketConn].
func (m *mail) SetDeadline(t time.Time) error {
	return errors.Join(m.SetReadDeadline(t), m.SetWriteDeadline(t))
}

// SetReadDeadline implements [net.PacketConn].
func (m *mail) SetReadDeadline(t time.Time) error {
	m.readBy.set(t)
	if m.closed.Load() {
		return nil
	}
	return m.stream.SetReadDeadline(t)
}
