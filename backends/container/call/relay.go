package call

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// mostConns is how many connections of programs an init carries at once; more wait to be accepted. Each
// may take a window of 256 KiB where a program does not read what it asked for.
const mostConns = 128

// relayChunk is how much of a connection an init takes at once, in bytes.
const relayChunk = 16 << 10

// relay accepts what programs connect to, and carries it to the server.
func (s *served) relay() {
	slots := make(chan struct{}, mostConns)
	for i, socket := range sockets(s.box) {
		if socket.listener != nil {
			s.work.Go(func() { s.admit(i, socket.listener, slots) })
		}
	}
}

func (s *served) admit(socket int, l net.Listener, slots chan struct{}) {
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
			s.carry(socket, c)
			<-slots
		})
	}
}

// carry moves one connection, until the server closes it. What says that a direction has ended is a
// chunk; a stream that ends without it is a connection that is gone.
func (s *served) carry(socket int, c net.Conn) {
	defer c.Close()
	stream, err := s.session.OpenStream()
	if err != nil {
		return
	}
	defer stream.Close()
	a := arrival{Socket: socket, Local: addrPort(c.LocalAddr()), Remote: addrPort(c.RemoteAddr())}
	if write(stream, a, mostFromInit) != nil {
		return
	}
	var up sync.WaitGroup
	up.Go(func() { say(stream, c) })
	hear(c, stream)
	c.Close()
	stream.SetWriteDeadline(expired)
	up.Wait()
}

// say sends what the program says.
func say(stream *yamux.Stream, c net.Conn) {
	to := newChunks(stream, relayChunk)
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

// hear passes on what the server says, until it has closed the connection.
func hear(c net.Conn, stream *yamux.Stream) {
	from := &unchunk{from: stream}
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

// addrPort is an address as it travels; sockets of a sandbox have no others.
func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort()
	case *net.UDPAddr:
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

// packets carries what comes to a socket, and the answers.
func (s *served) packets(stream *yamux.Stream, c net.PacketConn) {
	s.work.Go(func() {
		defer stream.SetReadDeadline(expired)
		to := newChunks(stream, mostChunk)
		for buf := make([]byte, mostPacket); ; {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if to.packet(stamp(from), buf[:n]) != nil {
				return
			}
		}
	})
	from := newPackets(stream)
	for {
		packet, to, err := from.next()
		if err != nil {
			return
		}
		c.WriteTo(packet, net.UDPAddrFromAddrPort(to))
	}
}
