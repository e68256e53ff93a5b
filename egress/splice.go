package egress

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// bufferSize is the size of a buffer, in bytes.
const bufferSize = 32 << 10

// tap is a connection that counts bytes, and first returns bytes that were read before.
type tap struct {
	net.Conn
	c       *connection
	held    []byte
	in, out *atomic.Int64 // bytes; nil on the client's side
}

// newClientTap returns the client's connection from the first unsent byte on.
func (o *prelude) newClientTap() *tap { return &tap{Conn: o.c.client, c: o.c, held: o.held[o.sent:]} }

// newServerTap returns a connection to the name that counts bytes.
func (c *connection) newServerTap(server net.Conn, held []byte) *tap {
	t := &tap{Conn: server, c: c, held: held, in: &c.counts.received, out: &c.counts.sent}
	t.in.Add(int64(len(held)))
	return t
}

func (t *tap) Read(b []byte) (int, error) {
	if len(t.held) > 0 {
		n := copy(b, t.held)
		t.held = t.held[n:]
		return n, nil
	}
	n, err := t.Conn.Read(b)
	t.countBytes(n, t.in)
	return n, err
}

func (t *tap) Write(b []byte) (int, error) {
	n, err := t.Conn.Write(b)
	t.countBytes(n, t.out)
	return n, err
}

func (t *tap) countBytes(n int, count *atomic.Int64) {
	if n > 0 {
		t.c.noteActivity()
		if count != nil {
			count.Add(int64(n))
		}
	}
}

// CloseWrite closes the sending half.
func (t *tap) CloseWrite() error { return closeWrite(t.Conn) }

// closeWrite closes the sending half. A connection that both sides have closed is not an error: earlier bytes can still
// be read.
func closeWrite(conn net.Conn) error {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	if err := half.CloseWrite(); err != nil && !errors.Is(err, syscall.ENOTCONN) {
		return err
	}
	return nil
}

// splice forwards bytes both ways until both sides have ended, and closes the connection. It forwards an end as an end,
// and a reset as a reset.
func (c *connection) splice(server, client *tap) {
	c.spliceAfter(server, client, func() error { return nil })
}

// spliceAfter calls first before it forwards any bytes of the client.
func (c *connection) spliceAfter(server, client *tap, first func() error) {
	var both sync.WaitGroup
	var ended atomic.Int32
	carried := func(err error, from *tap) {
		switch {
		case err != nil:
			c.resetAll()
		case ended.Add(1) == 2:
			c.closeAll()
		case isReset(from.Conn):
			c.resetAll()
		}
	}
	both.Go(func() { carried(c.copyOneWay(client, server, server.in), server) })
	err := first()
	if err == nil {
		err = c.copyOneWay(server, client, server.out)
	}
	carried(err, client)
	both.Wait()
}

// copyOneWay forwards bytes in one direction, and then the end.
func (c *connection) copyOneWay(to, from *tap, count *atomic.Int64) error {
	if len(from.held) > 0 {
		n, err := to.Conn.Write(from.held)
		if count == to.out {
			to.countBytes(n, count) // the server's bytes are counted when they are read
		}
		if from.held = nil; err != nil {
			return err
		}
	}
	moved := func(n int) {
		count.Add(int64(n))
		c.noteActivity()
	}
	if err := c.g.copyUntilEnd(to.Conn, from.Conn, moved); err != nil {
		return err
	}
	return closeWrite(to.Conn)
}

// copyUntilEnd forwards bytes until from ends. It has no buffer while it waits, since a sandbox may have thousands of
// silent connections. splice(2) is not faster (1.3 GB/s with either), and its pipes take descriptors, and memory
// outside of cgroups.
func (g *Gateway) copyUntilEnd(to, from net.Conn, moved func(int)) error {
	for {
		err := waitForEvent(from, readable)
		if err == nil {
			err = g.copyAvailable(to, from, moved)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// copyAvailable forwards the available bytes, up to one buffer.
func (g *Gateway) copyAvailable(to, from net.Conn, moved func(int)) error {
	b := g.buffers.Get().(*[bufferSize]byte)
	defer g.buffers.Put(b)
	n, err := from.Read(b[:])
	if n > 0 {
		written, failed := to.Write(b[:n])
		moved(written)
		return failed
	}
	return err
}
