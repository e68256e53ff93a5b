package egress

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// The events to wait for.
const (
	readable = unix.POLLIN | unix.POLLRDHUP
	hungUp   = unix.POLLRDHUP // the other side closed, or closed its sending half
)

// waitForEvent waits for one of events, an error or a hang-up. It reads no bytes and needs no memory, and ends at the
// connection's read deadline.
func waitForEvent(conn net.Conn, events int16) error {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		p := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(p[:], 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}

// isReset waits after the end of a connection's bytes, and reports whether it is reset.
func isReset(conn net.Conn) bool {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	return raw.Read(func(fd uintptr) bool {
		number, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		return err != nil || number != 0
	}) == nil
}

// descriptorLimit returns this process's limit of descriptors.
func descriptorLimit() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<30))
}
