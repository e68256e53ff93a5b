//go:build !unix

package packages

import (
	"errors"
	"os"
)

// lock fails: without locks, servers that share a directory would remove each other's layers.
func lock(string, bool, bool) (*os.File, error) { return nil, errors.ErrUnsupported }
