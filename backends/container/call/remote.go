package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// makeSockets returns local counterparts of the container's sockets.
func (c *Conn) makeSockets(ports []int) backends.Sockets {
	listen := func(socket int, ip net.IP, port int) net.Listener {
		l := &remoteListener{conn: c, socket: socket, addr: &net.TCPAddr{IP: ip, Port: port}}
		l.ctx, l.cancel = context.WithCancel(context.Background())
		return l
	}
	g := backends.Sockets{DNS: newRemotePacketConn(c), DNSStream: listen(0, net.IPv4(127, 0, 0, 1), backends.DNSPort)}
	for i, port := range ports {
		g.Ports = append(g.Ports, listen(1+i, net.IPv4zero, port))
	}
	return g
}

// remoteListener is a listener in the container: Accept asks the init for the next connection.
type remoteListener struct {
	conn   *Conn
	socket int // index in [backends.Sockets.Listeners]
	addr   net.Addr
	ctx    context.Context // ends at Close
	cancel context.CancelFunc
}

// Accept implements [net.Listener].
func (l *remoteListener) Accept() (net.Conn, error) {
	c, err := l.accept()
	if err == nil {
		return c, nil
	}
	if l.ctx.Err() != nil {
		err = net.ErrClosed
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: err}
}

func (l *remoteListener) accept() (net.Conn, error) {
	ctx, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(l.ctx, cancel) // a connection outlives its listener
	r, err := l.conn.send(ctx, request{Op: opAccept, Socket: l.socket}, nil, unlimited)
	if err != nil {
		return nil, err
	}
	m, err := r.readNext()
	if a := m.Arrival; err == nil && (a == nil || !a.Local.IsValid() || !a.Remote.IsValid()) {
		err = l.conn.protocolError("an impossible connection")
	}
	if err != nil || !stop() {
		r.Close()
		return nil, cmp.Or(err, net.ErrClosed)
	}
	c := newRemoteConn(l.conn)
	c.cancel = func() { r.cancel(net.ErrClosed) }
	c.local, c.remote = net.TCPAddrFromAddrPort(m.Arrival.Local), net.TCPAddrFromAddrPort(m.Arrival.Remote)
	l.conn.work.Go(func() {
		c.receive(r)
		c.received.Close()
	})
	l.conn.work.Go(func() { c.send(request{Op: opSend, Conn: m.Arrival.Conn}) })
	return c, nil
}

// Close implements [net.Listener].
func (l *remoteListener) Close() error {
	l.cancel()
	return nil
}

// Addr implements [net.Listener].
func (l *remoteListener) Addr() net.Addr { return l.addr }

// remoteConn is a connection from a program, carried by one request per direction, or a command's channel, which
// uses one request for both. Pipes provide its deadlines.
type remoteConn struct {
	conn          *Conn
	local, remote net.Addr
	cancel        func() // ends the requests

	in, out           net.Conn // our ends of the pipes
	received, sending net.Conn // the requests' ends of the pipes
	closed            atomic.Bool
	readErr           atomic.Pointer[error] // why the program's bytes were cut
}

func newRemoteConn(conn *Conn) *remoteConn {
	c := &remoteConn{conn: conn, cancel: func() {}, local: conn.wire.LocalAddr(), remote: conn.wire.RemoteAddr()}
	c.in, c.received = net.Pipe()
	c.out, c.sending = net.Pipe()
	return c
}

// receive copies the program's bytes until it closes its end or has ended.
func (c *remoteConn) receive(from *reply) {
	defer from.Close()
	err := copyAll(c.received, from)
	if err == nil {
		var m response
		m, err = from.readLast()
		err = cmp.Or(err, m.Failure.decode())
	}
	if err != nil {
		c.readErr.Store(&err)
	}
}

// send copies bytes to the program until they end or it has ended.
func (c *remoteConn) send(q request) {
	if r, err := c.conn.send(context.Background(), q, c.sending, unlimited); err == nil {
		r.Close()
	}
	c.sending.Close()
}

// Read implements [net.Conn], as do the following methods.
func (c *remoteConn) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	if why := c.readErr.Load(); why != nil && err == io.EOF {
		err = syscall.ECONNRESET
	}
	return n, c.netError("read", err)
}

func (c *remoteConn) Write(b []byte) (int, error) {
	n, err := c.out.Write(b)
	return n, c.netError("write", err)
}

// netError translates an error of a pipe into one of the connection.
func (c *remoteConn) netError(op string, err error) error {
	switch {
	case err == nil, err == io.EOF, errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case c.closed.Load():
		err = net.ErrClosed
	case c.conn.ended():
		err = c.conn.lostError(nil)
	case op == "write":
		err = syscall.EPIPE
	}
	return &net.OpError{Op: op, Net: c.remote.Network(), Addr: c.remote, Err: err}
}

// CloseWrite ends the direction towards the program.
func (c *remoteConn) CloseWrite() error { return c.out.Close() }

// Close ends both directions and pending calls. The program still receives data already written.
func (c *remoteConn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	c.in.Close()
	c.out.Close()
	c.cancel()
	return nil
}

func (c *remoteConn) LocalAddr() net.Addr                { return c.local }
func (c *remoteConn) RemoteAddr() net.Addr               { return c.remote }
func (c *remoteConn) SetReadDeadline(t time.Time) error  { return c.in.SetReadDeadline(t) }
func (c *remoteConn) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }
func (c *remoteConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// remotePacketConn is the packet socket of the container's DNS. One request brings its packets, each whole through
// a pipe, and each answer is a request.
type remotePacketConn struct {
	net.Conn // our end of the pipe
	conn     *Conn
	cancel   func()
	mu       sync.Mutex // guards reading
	buf      [maxPacket + 32]byte
}

func newRemotePacketConn(conn *Conn) *remotePacketConn {
	c := &remotePacketConn{conn: conn}
	ours, received := net.Pipe()
	c.Conn = ours
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	conn.work.Go(func() {
		defer received.Close()
		r, err := conn.send(ctx, request{Op: opReceive}, nil, unlimited)
		if err != nil {
			return
		}
		defer r.Close()
		for {
			m, err := r.readNext()
			if err != nil || m.Packet == nil || len(m.Packet.Data) > maxPacket {
				return
			}
			at, _ := m.Packet.Remote.MarshalBinary()
			if _, err := received.Write(append(append([]byte{byte(len(at))}, at...), m.Packet.Data...)); err != nil {
				return
			}
		}
	})
	return c
}

// ReadFrom implements [net.PacketConn], as do the following methods.
func (c *remotePacketConn) ReadFrom(b []byte) (int, net.Addr, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		n, err := c.Conn.Read(c.buf[:])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return 0, nil, err
		case err != nil && c.conn.ended():
			return 0, nil, c.conn.lostError(nil)
		case err != nil:
			return 0, nil, net.ErrClosed
		}
		var from netip.AddrPort
		data := 1 + int(c.buf[0])
		if from.UnmarshalBinary(c.buf[1:data]) == nil && from.IsValid() { // a packet without an address can't be answered
			return copy(b, c.buf[data:n]), net.UDPAddrFromAddrPort(from), nil
		}
	}
}

// WriteTo waits until the init has sent the packet.
func (c *remotePacketConn) WriteTo(b []byte, to net.Addr) (int, error) {
	if len(b) > maxPacket || addrPort(to) == (netip.AddrPort{}) {
		return 0, fmt.Errorf("write %d bytes to %v: %w", len(b), to, syscall.EINVAL)
	}
	_, err := c.conn.roundTrip(context.Background(), request{Op: opReply, Packet: &packet{addrPort(to), b}}, ioTimeout)
	return len(b), err
}

func (c *remotePacketConn) Close() error {
	c.cancel()
	return c.Conn.Close()
}

func (c *remotePacketConn) LocalAddr() net.Addr {
	return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: backends.DNSPort}
}

// maxPacket is the size of the largest packet, in bytes.
const maxPacket = 64 << 10

// addrPort converts an address for transport; a sandbox's sockets have only these types.
func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort()
	case *net.UDPAddr:
		return a.AddrPort()
	}
	return netip.AddrPort{}
}
