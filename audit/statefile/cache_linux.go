package statefile

import (
	"os"

	"golang.org/x/sys/unix"
)

// DropCache has the kernel forget the pages of f that are on the disk.
func DropCache(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
