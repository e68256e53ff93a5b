package hostfs

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"runtime"
)

// Replace gives a new file, which write fills, the name in dir: a reader sees the old file or the new one, whole. Whatever else had the name,
// a link or a FIFO, is removed and not touched; a directory is an error. A kill in the middle leaves a file named ".sandboxmcp-" and 26
// letters.
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

// RenameNew gives the file or directory old the name in dir that nothing has: fs.ErrExist is its error where something has, and that stays.
// A directory takes the place of an empty one of ours, for which rename(2) takes no other; so does a file where there are no hard links.
func RenameNew(dir *os.Root, old, name string) error {
	info, err := dir.Lstat(old)
	if err != nil {
		return err
	}
	if info.IsDir() {
		if err := dir.Mkdir(name, 0o700); err != nil {
			return err
		}
	} else if err := dir.Link(old, name); err == nil {
		return dir.Remove(old)
	} else if errors.Is(err, fs.ErrExist) {
		return err
	} else if f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	} else if err := f.Close(); err != nil {
		return err
	}
	if info.IsDir() && runtime.GOOS == "windows" { // where a directory takes no other's place
		err = dir.Remove(name)
	}
	if err == nil {
		err = dir.Rename(old, name)
	}
	if err != nil && info.IsDir() {
		_ = dir.Remove(name)
	}
	return err
}
