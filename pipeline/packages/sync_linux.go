package packages

import (
	"os"

	"golang.org/x/sys/unix"
)

// settle has the file system write down its changes: a generation that is switched to must not turn out to be empty
// files when the power fails.
func settle(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}
