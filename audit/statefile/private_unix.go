//go:build unix

package statefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// NoWait makes opening a FIFO or a device return at once; it does nothing to files.
const NoWait = syscall.O_NONBLOCK | syscall.O_NOCTTY

// NoLink has opening a link fail: whoever can put one into the directory would have us write to a file of their choice.
const NoLink = syscall.O_NOFOLLOW

// OpenPrivate opens a regular file that is ours or root's and that nobody but its owner may read or write. A link could
// lead to a file that others replace. advice follows "chmod 600 it, and " in the error about a file that others may
// read.
func OpenPrivate(path, advice string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|NoWait|NoLink, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, nil, fmt.Errorf("%q is a link, and a key must be a file of its own", path)
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%q is no file", path)
	case info.Mode().Perm()&0o077 != 0:
		err = fmt.Errorf("others on this machine may read %q: chmod 600 it, and %s", path, advice)
	case IsForeign(info):
		err = fmt.Errorf("%q is another user's", path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// Owner returns the user id that a file belongs to, where files have one.
func Owner(info fs.FileInfo) (uid int, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Uid), true
}

// HasModes says that permission bits mean something here.
const HasModes = true
