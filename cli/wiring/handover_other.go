//go:build !linux

package wiring

import "errors"

// kernelState is not known here, and nothing is handed over.
func kernelState() ([]byte, error) { return nil, errors.ErrUnsupported }

func fileID(string) string { return "" }

func edition(string) string { return "" }
