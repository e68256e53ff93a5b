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

// NoLink makes opening a link fail: a link in a writable directory could redirect the write to another file.
const NoLink = syscall.O_NOFOLLOW

// OpenPrivate opens a regular file that belongs to this user or root and is private to its owner. It refuses links,
// whose targets others could replace. advice follows "chmod 600 it, and " in the error about a readable file.
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
		err = fmt.Errorf("%q is not a file", path)
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

// Owner returns the user id that a file belongs to, if files have one on this system.
func Owner(info fs.FileInfo) (uid int, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(s.Uid), true
}

// HasModes reports whether permission bits have a meaning on this system.
const HasModes = true
