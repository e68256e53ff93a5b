package call

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// maxConns is how many connections of programs an init carries at once; more wait to be accepted. Each may take a
// window of 256 KiB where a program does not read.
const maxConns = 128

// relayChunk is how much of a connection an init moves at once, in bytes.
const relayChunk = 16 << 10

// relayConns accepts the connections of programs and carries them to the server.
func (s *service) relayConns() {
	slots := make(chan struct{}, maxConns)
	for i, socket := range sockets(s.sandbox) {
		if socket.listener != nil {
			s.work.Go(func() { s.acceptConns(i, socket.listener, slots) })
		}
	}
}

func (s *service) acceptConns(socket int, l net.Listener, slots chan struct{}) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) || s.session.IsClosed() {
			if err == nil {
				c.Close()
			}
			return
		}
		if err != nil { // such as that there is no descriptor left
			time.Sleep(10 * time.Millisecond)
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-s.session.CloseChan():
			c.Close()
			return
		}
		s.work.Go(func() {
			s.relayConn(socket, c)
			<-slots
		})
	}
}

// relayConn carries one connection, until the server closes it. A chunk marks the end of a direction; a stream that
// ends without one is a connection that is gone.
func (s *service) relayConn(socket int, c net.Conn) {
	defer c.Close()
	stream, err := s.session.OpenStream()
	if err != nil {
		return
	}
	defer stream.Close()
	a := arrival{Socket: socket, Local: addrPort(c.LocalAddr()), Remote: addrPort(c.RemoteAddr())}
	if write(stream, a, maxInitMessage) != nil {
		return
	}
	var up sync.WaitGroup
	up.Go(func() { copyToStream(stream, c) })
	copyFromStream(c, stream)
	c.Close()
	stream.SetWriteDeadline(expired)
	up.Wait()
}

// copyToStream sends the program's bytes to the server.
func copyToStream(stream *yamux.Stream, c net.Conn) {
	to := newChunkWriter(stream, relayChunk)
	for buf := make([]byte, relayChunk); ; {
		n, err := c.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if isEOF(err) {
			to.end()
			return
		}
		if err != nil {
			stream.Close()
			return
		}
	}
}

// copyFromStream passes the server's bytes on, until the server closes the connection.
func copyFromStream(c net.Conn, stream *yamux.Stream) {
	from := &chunkReader{from: stream}
	buf := make([]byte, relayChunk)
	for gone := false; ; {
		n, err := from.Read(buf)
		if n > 0 && !gone {
			if _, err := c.Write(buf[:n]); err != nil {
				gone = true
				stream.Close() // which tells the server
			}
		}
		if n < len(buf) {
			stream.Shrink() // or a window's memory stays with it
		}
		if isEOF(err) {
			if half, ok := c.(interface{ CloseWrite() error }); ok {
				half.CloseWrite()
			}
			stream.Read(buf[:1]) // nothing but the stream's end comes
			return
		}
		if err != nil {
			return
		}
	}
}

// addrPort converts an address for transport; sockets of a sandbox have no other kinds.
func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort()
	case *net.UDPAddr:
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

// relayPackets carries packets between a socket and the server.
func (s *service) relayPackets(stream *yamux.Stream, c net.PacketConn) {
	s.work.Go(func() {
		defer stream.SetReadDeadline(expired)
		to := newChunkWriter(stream, maxChunk)
		for buf := make([]byte, maxPacket); ; {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if to.packet(encodeAddr(from), buf[:n]) != nil {
				return
			}
		}
	})
	from := newPacketReader(stream)
	for {
		packet, to, err := from.next()
		if err != nil {
			return
		}
		c.WriteTo(packet, net.UDPAddrFromAddrPort(to))
	}
}
