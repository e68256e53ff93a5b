package call

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// unixConn returns conn as a Unix socket, over which descriptors can be sent, and whether it is one.
func unixConn(conn io.ReadWriteCloser) (*net.UnixConn, bool) {
	unix, ok := conn.(*net.UnixConn)
	return unix, ok
}

// sendSocket sends the descriptor of a socket, with one byte. A socket stays in the network namespace where it was
// made, whoever holds it.
func sendSocket(conn *net.UnixConn, s socket) error {
	from, ok := s.listener.(syscall.Conn)
	if s.packets != nil {
		from, ok = s.packets.(syscall.Conn)
	}
	if !ok {
		return errors.New("hand a socket over: it has no descriptor")
	}
	c, err := from.SyscallConn()
	if err != nil {
		return fmt.Errorf("hand a socket over: %w", err)
	}
	var sent error
	if err := c.Control(func(fd uintptr) {
		_, _, sent = conn.WriteMsgUnix([]byte{0}, syscall.UnixRights(int(fd)), nil)
	}); err != nil {
		return fmt.Errorf("hand a socket over: %w", err)
	}
	return sent
}

// receiveSockets takes the sockets that follow a message.
func (c *Conn) receiveSockets(b built) (all []socket, err error) {
	conn, ok := unixConn(c.rwc)
	n, packets := b.count()
	if !ok || b.Listeners < 0 || b.Ports < 0 || n > maxSockets {
		return nil, errors.New("its init broke the protocol: descriptors that can't come")
	}
	defer func() {
		if err != nil {
			closeAll(all)
		}
	}()
	for i := range n {
		s, err := receiveSocket(conn, i == packets)
		if err != nil {
			return all, fmt.Errorf("take a socket over: %w", err)
		}
		all = append(all, s)
	}
	return all, nil
}

func receiveSocket(conn *net.UnixConn, packets bool) (s socket, err error) {
	f, err := ReceiveDescriptor(conn)
	if err != nil {
		return s, err
	}
	defer f.Close()
	if packets {
		if s.packets, err = net.FilePacketConn(f); err != nil {
			return s, err
		}
		if _, ok := s.packets.(*net.UDPConn); !ok {
			s.close()
			return s, errors.New("not a socket for UDP")
		}
		return s, nil
	}
	if s.listener, err = net.FileListener(f); err != nil {
		return s, err
	}
	if _, ok := s.listener.(*net.TCPListener); !ok {
		s.close()
		return s, errors.New("not a socket for TCP")
	}
	return s, nil
}

// ReceiveDescriptor reads one byte and the descriptor that was sent with it.
func ReceiveDescriptor(conn *net.UnixConn) (*os.File, error) {
	buf, rights := make([]byte, 1), make([]byte, syscall.CmsgSpace(4))
	n, m, flags, _, err := conn.ReadMsgUnix(buf, rights)
	if err != nil {
		return nil, err
	}
	f, err := parseDescriptor(rights[:m])
	if err != nil {
		return nil, err
	}
	if n != 1 || flags&syscall.MSG_CTRUNC != 0 {
		f.Close()
		return nil, errors.New("not one descriptor")
	}
	return f, nil
}

// parseDescriptor returns the one descriptor of a control message, and closes them all if there are more.
func parseDescriptor(rights []byte) (*os.File, error) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			continue // some other message
		}
		all = append(all, fds...)
	}
	if len(all) != 1 {
		for _, fd := range all {
			syscall.Close(fd)
		}
		return nil, fmt.Errorf("%d descriptors", len(all))
	}
	return os.NewFile(uintptr(all[0]), "socket"), nil
}
