//go:build !unix && !windows

package statefile

import (
	"errors"
	"os"
)

// TryLock is not supported here.
func TryLock(*os.File, bool) error { return errors.ErrUnsupported }
