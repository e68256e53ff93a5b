package packages

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncDirectory writes the changes of dir's file system to the disk, by syncfs(2): the current generation must not consist of
// empty files after a power failure.
func syncDirectory(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}
