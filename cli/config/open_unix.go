//go:build unix

package config

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// open opens a regular file that not everybody may write. O_NONBLOCK keeps a FIFO without a writer
// from stopping us; it does nothing to files.
func open(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, notRegular(info) // not even opened: devices act on that
	}
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular(): // exchanged since
		err = notRegular(info)
	case info.Mode().Perm()&0o002 != 0:
		err = fmt.Errorf("everybody on this machine may write it: chmod o-w %s", name)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
