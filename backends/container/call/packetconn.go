package call

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"

	"github.com/hashicorp/yamux"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// remotePacketConn is a packet socket of the container, carried over a stream.
type remotePacketConn struct {
	remoteSocket
	in *packetReader
}

func newRemotePacketConn(l *Conn, stream *yamux.Stream) *remotePacketConn {
	at := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: backends.DNSPort}
	return &remotePacketConn{remoteSocket{conn: l, stream: stream, local: at, out: newChunkWriter(stream, maxChunk)}, newPacketReader(stream)}
}

// ReadFrom implements [net.PacketConn].
func (c *remotePacketConn) ReadFrom(b []byte) (int, net.Addr, error) {
	if err := c.ready(&c.readDeadline); err != nil {
		return 0, nil, c.netError("read", c.local, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	packet, from, err := c.in.next()
	if err != nil {
		return 0, nil, c.netError("read", c.local, err)
	}
	return copy(b, packet), net.UDPAddrFromAddrPort(from), nil
}

// WriteTo implements [net.PacketConn].
func (c *remotePacketConn) WriteTo(b []byte, to net.Addr) (int, error) {
	if err := c.ready(&c.writeDeadline); err != nil {
		return 0, c.netError("write", c.local, err)
	}
	if len(b) > maxPacket || addrPort(to) == (netip.AddrPort{}) {
		return 0, fmt.Errorf("write %d bytes to %v: %w", len(b), to, syscall.EINVAL)
	}
	return len(b), c.netError("write", c.local, c.out.packet(encodeAddr(to), b))
}

// maxPacket is the size of the largest packet, in bytes.
const maxPacket = 64 << 10

var errPacket = errors.New("a packet without an address")

// encodeAddr encodes the address that travels before a packet: a length and its bytes.
func encodeAddr(a net.Addr) []byte {
	b, _ := addrPort(a).MarshalBinary()
	return append([]byte{byte(len(b))}, b...)
}

// packetReader reads packets with their addresses, each a chunk. A deadline that interrupts it within a packet does no
// harm.
type packetReader struct {
	from *chunkReader
	buf  []byte
	got  int
}

func newPacketReader(from io.Reader) *packetReader {
	return &packetReader{from: &chunkReader{from: from}, buf: make([]byte, maxChunk)}
}

// next returns a packet, in memory that is valid until the next call.
func (p *packetReader) next() ([]byte, netip.AddrPort, error) {
	var at netip.AddrPort
	for p.got == 0 || p.from.left > 0 {
		n, err := p.from.Read(p.buf[p.got:])
		p.got += n
		if err != nil {
			return nil, at, err
		}
	}
	packet := p.buf[:p.got]
	p.got = 0
	n := int(packet[0])
	if len(packet) < 1+n || at.UnmarshalBinary(packet[1:1+n]) != nil || !at.IsValid() {
		return nil, at, errPacket
	}
	return packet[1+n:], at, nil
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
