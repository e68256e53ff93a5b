package statefile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// SyncData puts the data of f on the disk, with the metadata needed to read them. It does not wait for the times of the
// file.
func SyncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// DropCache has the kernel forget the pages of f that are on the disk.
func DropCache(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
