//go:build unix

package config

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// openFile opens a regular file that not everybody may write. O_NONBLOCK prevents a hang on a FIFO without a writer, and
// has no effect on files.
func openFile(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, notRegular(info) // not even opened: opening has effects on devices
	}
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular(): // replaced since Lstat
		err = notRegular(info)
	case info.Mode().Perm()&0o002 != 0:
		err = fmt.Errorf("everybody on this machine may write it: chmod o-w %s", name)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
