//go:build unix

package vault

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// openPrivate opens a regular file that nobody but its owner may read or write. O_NONBLOCK keeps a
// FIFO from stopping us; it does nothing to files. A link could lead to a file that others replace.
func openPrivate(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%q is a link, and a key must be a file of its own", path)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%q is no file", path)
	case info.Mode().Perm()&0o077 != 0:
		err = fmt.Errorf("others on this machine may read %q: chmod 600 it, and replace the secrets if somebody has", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
