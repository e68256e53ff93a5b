//go:build !unix

package packages

import (
	"errors"
	"os"
)

func lock(string, bool, bool) (*os.File, error) { return nil, errors.ErrUnsupported }
