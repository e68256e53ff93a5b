//go:build unix

package packages

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lock opens a lock file, making it when make is set, and takes its lock if nobody else holds one
// that excludes it. The kernel lets go of it when the file is closed, also by being killed. A nil
// file without an error: somebody holds it.
func lock(name string, exclusive, make bool) (*os.File, error) {
	flags, how := os.O_RDONLY, unix.LOCK_SH
	if make {
		flags = os.O_RDWR | os.O_CREATE
	}
	if exclusive {
		how = unix.LOCK_EX
	}
	f, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err != unix.EINTR {
			break
		}
	}
	if err == nil && !same(f, name) { // it was removed before it was locked
		err = unix.EWOULDBLOCK
	}
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		f.Close()
		return nil, nil
	}
	f.Close()
	return nil, fmt.Errorf("lock %s: %w", name, err)
}

func same(f *os.File, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b)
}
