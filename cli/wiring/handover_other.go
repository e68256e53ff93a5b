//go:build !linux

package wiring

import (
	"errors"
	"os"
)

// kernelState is not known on this system, so nothing is handed over.
func kernelState() ([]byte, error) { return nil, errors.ErrUnsupported }

func fileID(os.FileInfo) string { return "" }

func fileVersion(string) string { return "" }
