package config

import (
	"errors"
	"io/fs"
)

// notRegular returns the error for a configuration file that is a directory, a pipe or a device.
func notRegular(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return errors.New("this is a directory: name the file in it")
	case mode&fs.ModeNamedPipe != 0:
		return errors.New("this is a pipe: write the configuration to a file")
	}
	return errors.New("this is no regular file")
}
