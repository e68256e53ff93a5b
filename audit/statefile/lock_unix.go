//go:build unix

package statefile

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// TryLock locks an open file, or directory, until it is closed, or the process ends. The error is ErrLocked if another
// process has a lock. Shared locks don't exclude each other.
func TryLock(f *os.File, shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err {
		case syscall.EINTR:
		case unix.EWOULDBLOCK:
			return ErrLocked
		default:
			return err
		}
	}
}
