package statefile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// SyncData syncs the data of f, with the metadata needed to read them, but not its times.
func SyncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// DropCache drops the clean pages of f from the page cache.
func DropCache(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
