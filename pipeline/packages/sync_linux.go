package packages

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncDirectory syncs dir's file system, by syncfs(2), so that the current layer has no empty files after a power
// failure.
func syncDirectory(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}
