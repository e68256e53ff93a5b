package call

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// reach makes the sockets of a sandbox whose real ones are far away.
func (s *sandbox) reach() error {
	local := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }
	add := func(at net.Addr) {
		s.socks = append(s.socks, socket{listener: &door{line: s.line, at: at, came: make(chan *conn, maxOpen), closed: make(chan struct{})}})
	}
	for _, port := range s.spec.Listen {
		add(local(port))
	}
	if !s.spec.Resolves() {
		return nil
	}
	stream, err := s.line.ask(request{Op: opPackets})
	if err != nil {
		return err
	}
	s.socks = append(s.socks, socket{packets: newMail(s.line, stream)})
	add(local(backends.DNSPort))
	for _, port := range s.spec.Gateway {
		add(&net.TCPAddr{IP: net.IPv4zero, Port: port})
	}
	return nil
}

// maxOpen is how many connections an init may have open: its own bound, and those of which it does not
// know yet that they are closed.
const maxOpen = 2 * mostConns

// accept takes the streams that the init opens, until the line has ended, and returns why.
func (s *sandbox) accept(session *yamux.Session) error {
	for {
		stream, err := session.AcceptStream()
		if errors.Is(err, yamux.ErrSessionShutdown) {
			_, err = session.AcceptStream() // which says why, where a stream that just came did not
		}
		if err != nil {
			return err
		}
		if s.open.Add(1) > maxOpen {
			return errors.New("its init broke the protocol: too many connections")
		}
		s.line.work.Go(func() {
			if err := s.arrive(stream); err != nil {
				stream.Close()
				s.line.lost(err)
			}
		})
	}
}

// arrive brings a connection to its door.
func (s *sandbox) arrive(stream *yamux.Stream) error {
	stream.SetReadDeadline(time.Now().Add(slow))
	var a arrival
	if err := read(stream, &a, 4<<10); err != nil {
		return err
	}
	stream.SetReadDeadline(time.Time{})
	if a.Socket < 0 || a.Socket >= len(s.socks) || !a.Local.IsValid() || !a.Remote.IsValid() {
		return errors.New("its init broke the protocol: a connection that can't be")
	}
	d, ok := s.socks[a.Socket].listener.(*door)
	if !ok {
		return errors.New("its init broke the protocol: a connection that was not to be carried")
	}
	c := &conn{local: net.TCPAddrFromAddrPort(a.Local), remote: net.TCPAddrFromAddrPort(a.Remote),
		out: newChunks(stream, chunk), in: &unchunk{from: stream}, left: func() { s.open.Add(-1) }}
	c.line, c.stream = s.line, stream
	d.take(c)
	return nil
}

// door is a listener that is far away.
type door struct {
	line   *Line
	at     net.Addr
	came   chan *conn // has room for all that may be open
	closed chan struct{}
	once   sync.Once
}

func (d *door) take(c *conn) {
	select {
	case <-d.closed:
		c.Close()
		return
	default:
		d.came <- c
	}
	select {
	case <-d.closed:
		d.drain()
	default:
	}
}

// Accept implements [net.Listener].
func (d *door) Accept() (net.Conn, error) {
	select {
	case <-d.closed:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: d.at, Err: net.ErrClosed}
	default:
	}
	select {
	case c := <-d.came:
		return c, nil
	case <-d.closed:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: d.at, Err: net.ErrClosed}
	}
}

// Close implements [net.Listener].
func (d *door) Close() error {
	d.once.Do(func() {
		close(d.closed)
		d.drain()
	})
	return nil
}

func (d *door) drain() {
	for {
		select {
		case c := <-d.came:
			c.Close()
		default:
			return
		}
	}
}

// Addr implements [net.Listener].
func (d *door) Addr() net.Addr { return d.at }
