//go:build !unix && !windows

package signer

import (
	"errors"
	"os"
)

func openPrivate(string) (*os.File, os.FileInfo, error) { return nil, nil, errors.ErrUnsupported }

func othersWrite(os.FileInfo) bool { return false }

func syncFolder(string) error { return nil }

func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

// unixModes says that permission bits mean something here.
const unixModes = false
