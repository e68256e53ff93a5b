package call

import (
	"errors"
	"io"
	"net"
	"net/netip"
)

// maxPacket is how large one is, in bytes.
const maxPacket = 64 << 10

var errPacket = errors.New("a packet without an address")

// encodeAddr is the address of a packet as it travels before it: a length and the bytes.
func encodeAddr(a net.Addr) []byte {
	b, _ := addrPort(a).MarshalBinary()
	return append([]byte{byte(len(b))}, b...)
}

// packetReader reads packets with their addresses, each a chunk. A deadline that interrupts it in the middle of
// one does no harm.
type packetReader struct {
	from *chunkReader
	buf  []byte
	got  int
}

func newPacketReader(from io.Reader) *packetReader {
	return &packetReader{from: &chunkReader{from: from}, buf: make([]byte, maxChunk)}
}

// next returns one, in memory that is good until it is called again.
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
