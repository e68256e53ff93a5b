package call

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// maxConns is how many connections of programs an init carries at once; more wait to be accepted. Each may take a
// window where a program does not read.
const maxConns = 128

// expired is a deadline that has passed: it ends what waits.
var expired = time.Unix(1, 0)

// relayed is a program's connection that is carried to the server, by a request for each direction.
type relayed struct {
	net.Conn
	open atomic.Int32 // directions
}

// accept waits for a connection of a program and sends what it says, and in the trailer whether the program closed its
// end.
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
	defer s.leave(number, c)
	// The server may have closed its end, and may still send.
	defer context.AfterFunc(ctx, func() { c.SetReadDeadline(expired) })()
	if err := write(out, response{Arrival: &arrival{number, addrPort(c.LocalAddr()), addrPort(c.RemoteAddr())}}); err != nil {
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
		time.Sleep(10 * time.Millisecond) // such as that there is no descriptor left
	}
}

// send passes the server's bytes on to a program.
func (s *service) send(ctx context.Context, out *stream, number uint64) error {
	s.mu.Lock()
	c := s.conns[number]
	s.mu.Unlock()
	if c == nil {
		return errors.New("no connection")
	}
	defer s.leave(number, c)
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

// leave ends one direction of a connection.
func (s *service) leave(number uint64, c *relayed) {
	if c.open.Add(-1) > 0 {
		return
	}
	c.Close()
	s.mu.Lock()
	delete(s.conns, number)
	s.mu.Unlock()
	<-s.slots
}

// receivePackets sends what comes to a packet socket.
func receivePackets(ctx context.Context, out *stream, c net.PacketConn) error {
	defer context.AfterFunc(ctx, func() { c.SetReadDeadline(expired) })()
	for buf := make([]byte, maxPacket); ; {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return err
		}
		if err := write(out, response{Packet: &packet{addrPort(from), buf[:n]}}); err != nil {
			return err
		}
	}
}
