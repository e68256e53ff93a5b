package statefile

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// createUnnamed creates a file without a name, which disappears with a killed process, or a named one if the file
// system has no such files.
func createUnnamed(dir, kind string) (f *os.File, name string, err error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return createNamed(dir, kind)
	}
	return os.NewFile(uintptr(fd), dir), "", nil
}

// linkUnnamed links the file to path, unless that exists.
func linkUnnamed(f *os.File, name, path string) error {
	if name != "" {
		return os.Link(name, path)
	}
	err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return &fs.PathError{Op: "create", Path: path, Err: err}
	}
	return nil
}
