package hostfs

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Replace gives a new file, which write fills, the name in dir: a reader sees the old file or the new one, whole.
// Whatever else had the name, a link or a FIFO, is removed and not touched; a directory is an error. A kill in the
// middle leaves a file named ".sandboxmcp-" and 26 letters.
func Replace(dir *os.Root, name string, mode fs.FileMode, write func(*os.File) error) error {
	temp := ".sandboxmcp-" + rand.Text()
	f, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close()) // some file systems say only at close that they are full
	if err == nil {
		err = dir.Rename(temp, name)
	}
	if err != nil {
		_ = dir.Remove(temp)
	}
	return err
}

// RenameNew gives the file or directory old the name in dir that nothing has: fs.ErrExist is its error where something
// has, and that stays. A directory never takes the place of anything but an empty one, by rename(2); a file gets the
// name by a hard link, and where there are none in the place of an empty file of ours.
func RenameNew(dir *os.Root, old, name string) error {
	info, err := dir.Lstat(old)
	if err != nil {
		return err
	}
	if info.IsDir() {
		if err = dir.Rename(old, name); errors.Is(err, syscall.ENOTDIR) {
			err = fs.ErrExist
		}
		return err
	}
	if err = dir.Link(old, name); err == nil {
		return dir.Remove(old)
	}
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(f.Close(), dir.Rename(old, name))
	}
	return err
}
