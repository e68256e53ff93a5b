package call

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// local reports whether descriptors can be sent: over a Unix socket.
func (w *wire) local() bool {
	_, ok := w.ReadWriteCloser.(*net.UnixConn)
	return ok
}

// maxDescriptors is how many descriptors one side sends at the most.
const maxDescriptors = backends.MaxSockets + 2

// Read implements [net.Conn], and keeps the descriptors that come along while some are awaited.
func (w *wire) Read(b []byte) (int, error) {
	conn, ok := w.ReadWriteCloser.(*net.UnixConn)
	if !ok || !w.takes.Load() || len(b) == 0 {
		return w.ReadWriteCloser.Read(b)
	}
	rights := make([]byte, syscall.CmsgSpace(4*maxDescriptors))
	n, m, flags, _, err := conn.ReadMsgUnix(b, rights)
	if err != nil {
		return 0, err
	}
	files, err := descriptors(rights[:m])
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken = append(w.taken, files...)
	switch {
	case err != nil:
		return n, err
	case flags&syscall.MSG_CTRUNC != 0 || len(w.taken) > maxDescriptors:
		return n, errors.New("its init broke the protocol: too many descriptors")
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write implements [net.Conn]. The first bytes carry the descriptors that are to be sent.
func (w *wire) Write(b []byte) (n int, err error) {
	if fds := w.rights.Swap(nil); fds != nil {
		n, _, err = w.ReadWriteCloser.(*net.UnixConn).WriteMsgUnix(b, syscall.UnixRights(*fds...), nil)
		if n = max(n, 0); err != nil || n == len(b) {
			return n, err
		}
	}
	m, err := w.ReadWriteCloser.Write(b[n:])
	return n + m, err
}

// sendSockets has the next Write send the descriptors of sockets, which flush does. A socket stays in the network namespace
// where it was made, whoever holds it.
func (w *wire) sendSockets(all []socket, flush func() error) error {
	var fds []int
	for _, s := range all {
		from, ok := s.either().(interface{ File() (*os.File, error) })
		if !ok {
			return errors.New("hand a socket over: it has no descriptor")
		}
		f, err := from.File()
		if err != nil {
			return fmt.Errorf("hand a socket over: %w", err)
		}
		defer f.Close()
		fds = append(fds, int(f.Fd()))
	}
	if len(fds) > 0 {
		w.rights.Store(&fds)
	}
	return flush()
}

// takeSockets returns the sockets that were received, of which the first one has packets, or an error if they are not as many.
func (w *wire) takeSockets(n int) (all []socket, err error) {
	w.takes.Store(false)
	w.mu.Lock()
	files := w.taken
	w.taken = nil
	w.mu.Unlock()
	defer func() {
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			closeAll(all)
		}
	}()
	if len(files) != n {
		return nil, fmt.Errorf("%d descriptors in place of %d", len(files), n)
	}
	for i, f := range files {
		s, err := openSocket(f, i == 0)
		if err != nil {
			return all, fmt.Errorf("take a socket over: %w", err)
		}
		all = append(all, s)
	}
	return all, nil
}

func openSocket(f *os.File, packets bool) (s socket, err error) {
	ok := false
	if packets {
		if s.packets, err = net.FilePacketConn(f); err == nil {
			_, ok = s.packets.(*net.UDPConn)
		}
	} else if s.listener, err = net.FileListener(f); err == nil {
		_, ok = s.listener.(*net.TCPListener)
	}
	if err == nil && !ok {
		s.either().Close()
		err = errors.New("not a socket of the Internet")
	}
	return s, err
}

// ReceiveDescriptor reads one byte and the descriptor that was sent with it.
func ReceiveDescriptor(conn *net.UnixConn) (*os.File, error) {
	buf, rights := make([]byte, 1), make([]byte, syscall.CmsgSpace(4))
	n, m, flags, _, err := conn.ReadMsgUnix(buf, rights)
	if err != nil {
		return nil, err
	}
	all, err := descriptors(rights[:m])
	if err == nil && n == 1 && flags&syscall.MSG_CTRUNC == 0 && len(all) == 1 {
		return all[0], nil
	}
	for _, f := range all {
		f.Close()
	}
	return nil, errors.Join(err, errors.New("not one descriptor"))
}

// descriptors returns the descriptors of a control message.
func descriptors(rights []byte) (all []*os.File, err error) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	for m := range slices.Values(messages) {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			continue // some other message
		}
		for _, fd := range fds {
			all = append(all, os.NewFile(uintptr(fd), "socket"))
		}
	}
	return all, err
}
