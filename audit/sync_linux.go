package audit

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData puts what was written to f on the disk, and what is needed to find it there. The times of the file are not
// waited for.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
