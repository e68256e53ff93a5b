//go:build linux || darwin

package console

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Open opens the controlling terminal. It returns nil if there is none, if this is a background job, or if reads can't
// be interrupted: they would consume the script's input.
func Open() *Console {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	t := newConsole(tty, func() bool {
		group, ok := foregroundGroup(tty)
		return ok && group == unix.Getpgrp()
	})
	if tty.SetReadDeadline(time.Time{}) != nil || !t.front() {
		t.Close()
		return nil
	}
	return t
}

// isControlling reports whether f is the controlling terminal: the kernel returns the process group of no other.
func isControlling(f *os.File) bool {
	_, ok := foregroundGroup(f)
	return ok
}

// foregroundGroup returns the foreground process group of a terminal, by TIOCGPGRP: tcgetpgrp(3).
func foregroundGroup(f *os.File) (group int, ok bool) {
	raw, err := f.SyscallConn() // Fd would make its reads uninterruptible
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		var e error
		group, e = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP)
		ok = e == nil
	})
	return group, ok && err == nil
}
