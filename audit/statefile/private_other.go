//go:build !unix

package statefile

import (
	"fmt"
	"io/fs"
	"os"
)

// NoWait would keep opening a FIFO from blocking: here, no FIFO has a path in a directory.
const NoWait = 0

// NoLink would have opening a link fail: this system has no flag for it.
const NoLink = 0

// OpenPrivate opens a regular file. Who may read it isn't in the mode bits of this system: it is what the directory
// above hands down, and that of a user's own state is the user's.
func OpenPrivate(path, _ string) (*os.File, fs.FileInfo, error) {
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

// Owner returns the user id that a file belongs to, which is not known here.
func Owner(fs.FileInfo) (uid int, ok bool) { return 0, false }

// HasModes says that permission bits mean something here.
const HasModes = false
