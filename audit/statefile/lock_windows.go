package statefile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// TryLock locks an open file until it is closed, also by the end of the process. The error is ErrLocked where another
// holds a lock. Shared locks exclude no other shared one.
func TryLock(f *os.File, shared bool) error {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if !shared {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}
