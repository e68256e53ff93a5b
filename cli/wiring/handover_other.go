//go:build !linux

package wiring

import (
	"errors"
	"os"
)

// kernelState is not known here, and nothing is handed over.
func kernelState() ([]byte, error) { return nil, errors.ErrUnsupported }

func fileID(os.FileInfo) string { return "" }

func edition(string) string { return "" }
