//go:build !unix

package vault

import (
	"fmt"
	"os"
)

// openPrivate opens a regular file. Who may read it isn't in the mode bits of this system.
func openPrivate(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is no file", path)
	}
	return os.Open(path)
}
