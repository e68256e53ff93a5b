package hostfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Replace makes a new file, which write fills, the file name in dir: a reader sees the old file or the complete new
// one. A link or FIFO of that name is removed and not followed; a directory is an error. A kill in the middle
// leaves a file named ".sandboxmcp-" and 26 letters.
func Replace(dir *os.Root, name string, mode fs.FileMode, write func(*os.File) error) error {
	temp := tempPrefix + rand.Text()
	err := create(dir, temp, mode, write)
	if err == nil {
		if err = dir.Rename(temp, name); err != nil {
			_ = dir.Remove(temp)
		}
	}
	return err
}

// tempPrefix begins the names of files that are incomplete or not to be seen yet.
const tempPrefix = ".sandboxmcp-"

// Stage makes a file in dir, which write fills, and which gets its name later by [os.Root.Rename]; temp is its name
// until then. owner, of letters and digits, is part of temp, so that [RemoveStaged] finds the files that a kill has
// left.
func Stage(dir *os.Root, owner string, number int, mode fs.FileMode, write func(*os.File) error) (temp string, err error) {
	temp = fmt.Sprintf("%s%s-%d", tempPrefix, owner, number)
	return temp, create(dir, temp, mode, write)
}

// create makes a complete file, or none.
func create(dir *os.Root, name string, mode fs.FileMode, write func(*os.File) error) error {
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close()) // some file systems report only at close that they are full
	if err != nil {
		_ = dir.Remove(name)
	}
	return err
}

// RemoveStaged removes the files that an owner staged in a directory and below, and returns their number. It
// follows no links.
func RemoveStaged(ctx context.Context, path, owner string) (removed int, err error) {
	root, err := os.OpenRoot(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer root.Close()
	var left error
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			left = errors.Join(left, err)
		case e.Type().IsRegular() && strings.HasPrefix(e.Name(), tempPrefix+owner+"-"):
			if err := root.Remove(name); err != nil {
				left = errors.Join(left, err)
				break
			}
			removed++
		}
		return nil
	})
	return removed, errors.Join(err, left)
}

// RenameNew renames the file or directory old in dir to an unused name: if the name exists, its error is
// fs.ErrExist and the existing file stays. A directory replaces at most an empty one, by rename(2); a file gets the
// name by a hard link, and where those are not supported in place of an empty file of ours.
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
