package call

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// makeRemoteSockets makes the sockets of a sandbox whose real ones stay in the container.
func (s *sandbox) makeRemoteSockets() error {
	local := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }
	add := func(at net.Addr) {
		s.socks = append(s.socks, socket{listener: &remoteListener{addr: at, incoming: make(chan *remoteConn, maxOpenConns), closed: make(chan struct{})}})
	}
	for _, port := range s.spec.Listen {
		add(local(port))
	}
	if !s.spec.Resolves() {
		return nil
	}
	stream, err := s.conn.openRequest(request{Op: opPackets})
	if err != nil {
		return err
	}
	s.socks = append(s.socks, socket{packets: newRemotePacketConn(s.conn, stream)})
	add(local(backends.DNSPort))
	for _, port := range s.spec.Gateway {
		add(&net.TCPAddr{IP: net.IPv4zero, Port: port})
	}
	return nil
}

// maxOpenConns is how many connections an init may have open: its own bound, and those whose closing it has not seen
// yet.
const maxOpenConns = 2 * maxConns

// accept serves the streams that the init opens until the connection ends, and returns why it ended.
func (s *sandbox) accept(session *yamux.Session) error {
	for {
		stream, err := session.AcceptStream()
		if errors.Is(err, yamux.ErrSessionShutdown) {
			_, err = session.AcceptStream() // which says why, where a stream that just came did not
		}
		if err != nil {
			return err
		}
		if s.open.Add(1) > maxOpenConns {
			return errors.New("its init broke the protocol: too many connections")
		}
		s.conn.work.Go(func() {
			if err := s.receiveConn(stream); err != nil {
				stream.Close()
				s.conn.lostError(err)
			}
		})
	}
}

// receiveConn hands a connection to its listener.
func (s *sandbox) receiveConn(stream *yamux.Stream) error {
	stream.SetReadDeadline(time.Now().Add(ioTimeout))
	var a arrival
	if err := read(stream, &a, 4<<10); err != nil {
		return err
	}
	stream.SetReadDeadline(time.Time{})
	if a.Socket < 0 || a.Socket >= len(s.socks) || !a.Local.IsValid() || !a.Remote.IsValid() {
		return errors.New("its init broke the protocol: a connection that can't be")
	}
	d, ok := s.socks[a.Socket].listener.(*remoteListener)
	if !ok {
		return errors.New("its init broke the protocol: a connection that was not to be carried")
	}
	d.deliver(&remoteConn{remote: net.TCPAddrFromAddrPort(a.Remote), in: &chunkReader{from: stream}, remoteSocket: remoteSocket{
		conn: s.conn, stream: stream, local: net.TCPAddrFromAddrPort(a.Local), out: newChunkWriter(stream, chunk), onClose: func() { s.open.Add(-1) },
	}})
	return nil
}

// remoteListener is a listener in the container, whose connections arrive as streams.
type remoteListener struct {
	addr     net.Addr
	incoming chan *remoteConn // has room for all that may be open
	closed   chan struct{}
	once     sync.Once
}

func (l *remoteListener) deliver(c *remoteConn) {
	select {
	case <-l.closed:
		c.Close()
		return
	default:
		l.incoming <- c
	}
	select {
	case <-l.closed:
		l.drain()
	default:
	}
}

// Accept implements [net.Listener].
func (l *remoteListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	default:
	}
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
}

// Close implements [net.Listener].
func (l *remoteListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.drain()
	})
	return nil
}

func (l *remoteListener) drain() {
	for {
		select {
		case c := <-l.incoming:
			c.Close()
		default:
			return
		}
	}
}

// Addr implements [net.Listener].
func (l *remoteListener) Addr() net.Addr { return l.addr }
