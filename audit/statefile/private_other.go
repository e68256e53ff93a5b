//go:build !unix

package statefile

import (
	"fmt"
	"io/fs"
	"os"
)

// NoWait would keep opening a FIFO from blocking: here, no FIFO has a path in a directory.
const NoWait = 0

// NoLink would make opening a link fail: this system has no flag for it.
const NoLink = 0

// OpenPrivate opens a regular file. Mode bits don't protect files on this system: they inherit the access of their
// directory, and a user's state directory is private.
func OpenPrivate(path, _ string) (*os.File, fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%q is not a file", path)
	}
	f, err := os.Open(path)
	return f, info, err
}

// Owner returns the user id that a file belongs to, which is unknown on this system.
func Owner(fs.FileInfo) (uid int, ok bool) { return 0, false }

// HasModes reports whether permission bits have a meaning on this system.
const HasModes = false
