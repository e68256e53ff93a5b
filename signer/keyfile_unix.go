//go:build unix

package signer

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openPrivate opens a regular file that nobody but its owner may read or write. O_NONBLOCK keeps a
// FIFO from stopping us; it does nothing to files. A link could lead to a file that others replace.
func openPrivate(path string) (*os.File, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_NOFOLLOW, 0)
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
		err = fmt.Errorf("others on this machine may read %q: chmod 600 it, and, if somebody has, replace it with sandboxmcp key rotate", path)
	}
	if err == nil && foreign(info) {
		err = fmt.Errorf("%q is another user's", path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// othersWrite says whether others could put files of theirs into a directory.
func othersWrite(info os.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 || foreign(info) }

// foreign says whether a file is another user's, who is not root.
func foreign(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return !ok || s.Uid != 0 && int(s.Uid) != os.Geteuid()
}

// syncDir makes a new name in a directory outlast a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err // EINVAL: some file systems can't
	}
	return nil
}

// tryLock locks an open file until it is closed, or says that another process has.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// unixModes says that permission bits mean something here.
const unixModes = true
