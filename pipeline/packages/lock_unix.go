//go:build unix

package packages

import (
	"errors"
	"fmt"
	"os"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// lock opens a lock file, making it when make is set, and takes its lock unless that is held in a way that excludes it:
// then the file is nil, without an error. The kernel lets go of the lock when the file is closed, also when the process
// is killed.
func lock(name string, exclusive, make bool) (*os.File, error) {
	flags := os.O_RDONLY
	if make {
		flags = os.O_RDWR | os.O_CREATE
	}
	f, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	err = statefile.TryLock(f, !exclusive)
	if err == nil && same(f, name) { // or else it was removed before it was locked
		return f, nil
	}
	f.Close()
	if err == nil || errors.Is(err, statefile.ErrLocked) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", name, err)
}

// same reports whether f is still the file of that name.
func same(f *os.File, name string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(name)
	return err == nil && os.SameFile(a, b)
}
