package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pollable returns a reader of a pipe or a socket that uses Go's poller: a blocking read would take its thread along, and
// another thread would have to wake up for the goroutine that handles the line. r itself does not change: its flags may
// be shared with others, whose reads and writes must block as before. For other files it returns r.
func pollable(r io.Reader) io.Reader {
	f, ok := r.(*os.File)
	if !ok {
		return r
	}
	info, err := f.Stat()
	if err != nil {
		return r
	}
	switch {
	case info.Mode()&fs.ModeNamedPipe != 0: // opening it again gives it flags of its own
		if again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			return again
		}
	case info.Mode()&fs.ModeSocket != 0:
		if s, err := newSocket(f); err == nil {
			return s
		}
	}
	return r
}

// socket is a socket that stays blocking for others.
type socket struct {
	of    *os.File
	ready syscall.RawConn // of an epoll descriptor that contains it, which can be polled itself
}

func newSocket(f *os.File) (*socket, error) {
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	in := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP}
	err = errors.Join(unix.EpollCtl(set, unix.EPOLL_CTL_ADD, int(f.Fd()), &in), unix.SetNonblock(set, true))
	if err != nil {
		unix.Close(set)
		return nil, err
	}
	ready, err := os.NewFile(uintptr(set), "epoll").SyscallConn()
	return &socket{f, ready}, err
}

func (s *socket) Read(p []byte) (n int, err error) {
	fd := int(s.of.Fd())
	over := s.ready.Read(func(uintptr) bool {
		for {
			n, _, err = unix.Recvfrom(fd, p, unix.MSG_DONTWAIT)
			if err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	switch {
	case over != nil:
		return 0, over
	case err != nil:
		return 0, os.NewSyscallError("recvfrom", err)
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}
