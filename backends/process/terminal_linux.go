package process

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// openTerminal makes a terminal among the sandbox's own. Its master is sent to us, and is not left to the program: pty(7).
func (p *plan) openTerminal(size backends.Size) (master, slave arg) {
	// Our reads and writes are to end at deadlines.
	master = p.get("open /dev/ptmx", unix.SYS_OPENAT, cwd, p.str("/dev/ptmx"), val(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK), val(0))
	p.do("TIOCSPTLCK", unix.SYS_IOCTL, master, val(unix.TIOCSPTLCK), value(p, int32(0)))
	slave = p.get("TIOCGPTPEER", unix.SYS_IOCTL, master, val(unix.TIOCGPTPEER), val(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC))
	p.do("TIOCSWINSZ", unix.SYS_IOCTL, slave, val(unix.TIOCSWINSZ), value(p, winsize(size)))
	return master, slave
}

func winsize(size backends.Size) unix.Winsize {
	return unix.Winsize{Col: size.Columns, Row: size.Rows}
}

// attachTerminal connects a terminal's master with the caller's streams.
func (p *pipes) attachTerminal(master *os.File, streams backends.Streams) {
	p.copy(streams.Stdout, master) // which fails once nobody has the terminal any more
	if streams.Stdin != nil {
		go io.Copy(master, streams.Stdin)
	}
	go func() {
		conn, err := master.SyscallConn() // Fd would make it one whose reads can't be ended
		for err == nil {
			select {
			case size := <-p.terminal.Resized:
				w := winsize(size)
				err = conn.Control(func(fd uintptr) { _ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &w) })
			case <-p.closed:
				return
			}
		}
	}()
}
