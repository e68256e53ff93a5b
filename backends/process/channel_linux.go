package process

import (
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// channel is our end of a command's private stream. It tells the watcher when the command gets
// something to do.
type channel struct {
	net.Conn
	poke func()
}

func (c channel) Write(b []byte) (int, error) {
	c.poke()
	return c.Conn.Write(b)
}

// connectChannel makes the stream and hands our end to open. What it returns is the command's, nil
// if nobody wants one; closing nil is no harm.
func connectChannel(open func(io.ReadWriteCloser), poke func()) (*os.File, error) {
	if open == nil {
		return nil, nil
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make the private channel: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, fmt.Errorf("make the private channel: %w", err)
	}
	open(channel{conn, poke})
	return theirs, nil
}
