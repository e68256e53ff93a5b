package call

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// maxConns bounds the program connections that an init carries at once; others wait in the listener. Each may hold
// a window while a program does not read.
const maxConns = 128

// expired is a past deadline, which ends pending calls.
var expired = time.Unix(1, 0)

// relayed is a program's connection, carried to the server by one request per direction.
type relayed struct {
	net.Conn
	open atomic.Int32 // directions
}

// accept waits for a program's connection and sends its data; the trailer tells whether the program closed its end.
func (s *service) accept(ctx context.Context, sandbox backends.Sandbox, out *stream, which int) error {
	all := sandbox.Gateway().Listeners()
	if which < 0 || which >= len(all) {
		return errors.New("no listener")
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	conn, err := acceptConn(ctx, all[which])
	if err != nil {
		<-s.slots
		return err
	}
	c := &relayed{Conn: conn}
	c.open.Store(2)
	s.mu.Lock()
	s.accepted++
	number := s.accepted
	s.conns[number] = c
	s.mu.Unlock()
	defer s.closeDirection(number, c)
	// The server may have closed its end, and may still send.
	defer context.AfterFunc(ctx, func() { c.SetReadDeadline(expired) })()
	if err := writeMessage(out, response{Arrival: &arrival{number, addrPort(c.LocalAddr()), addrPort(c.RemoteAddr())}}); err != nil {
		return err
	}
	return setTrailer(out.w.Header(), response{Failure: failureOf(copyAll(out, c))})
}

// acceptConn accepts until ctx ends.
func acceptConn(ctx context.Context, l net.Listener) (net.Conn, error) {
	d, ok := l.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return nil, errors.ErrUnsupported
	}
	if err := d.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { d.SetDeadline(expired) })()
	for {
		if c, err := l.Accept(); err == nil || ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return c, err
		}
		time.Sleep(10 * time.Millisecond) // such as too many open files
	}
}

// send writes the server's bytes to a program.
func (s *service) send(ctx context.Context, out *stream, number uint64) error {
	s.mu.Lock()
	c := s.conns[number]
	s.mu.Unlock()
	if c == nil {
		return errors.New("no connection")
	}
	defer s.closeDirection(number, c)
	defer context.AfterFunc(ctx, func() { c.SetWriteDeadline(expired) })()
	if err := copyAll(c, out.in); err != nil {
		c.Close()
		return nil
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	return nil
}

// closeDirection ends one direction of a connection.
func (s *service) closeDirection(number uint64, c *relayed) {
	if c.open.Add(-1) > 0 {
		return
	}
	c.Close()
	s.mu.Lock()
	delete(s.conns, number)
	s.mu.Unlock()
	<-s.slots
}

// receivePackets sends the packets of a packet socket.
func receivePackets(ctx context.Context, out *stream, c net.PacketConn) error {
	defer context.AfterFunc(ctx, func() { c.SetReadDeadline(expired) })()
	for buf := make([]byte, maxPacket); ; {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return err
		}
		if err := writeMessage(out, response{Packet: &packet{addrPort(from), buf[:n]}}); err != nil {
			return err
		}
	}
}
