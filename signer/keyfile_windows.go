package signer

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// openPrivate opens a regular file. Who may read it isn't in the mode bits of this system: it is
// what the directory above hands down, and that of a user's own state is the user's.
func openPrivate(path string) (*os.File, os.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%q is no file", path)
	}
	f, err := os.Open(path)
	return f, info, err
}

func othersWrite(os.FileInfo) bool { return false }

func syncFolder(string) error { return nil } // directories can't be synced here

// tryLock locks an open file until it is closed, or says that another process has.
func tryLock(f *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// unixModes says that permission bits mean something here.
const unixModes = false
