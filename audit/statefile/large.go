package statefile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// CreateLarge makes the file path, of mode 0600, of what fill writes: it is there whole and on the disk, or not at all,
// also after a kill. One that is there already stays, and is fs.ErrExist. named, if it is not nil, is called when all
// is on the disk; its error leaves nothing. kind is part of the name that the file has before, where it needs one: see
// [RemoveUnlocked].
func CreateLarge(path, kind string, fill func(*os.File) error, named func() error) error {
	if _, err := os.Lstat(path); err == nil {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	dir := filepath.Dir(path)
	f, name, err := createUnnamed(dir, kind)
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if name != "" {
			os.Remove(name)
		}
	}()
	if err := errors.Join(fill(f), f.Sync()); err != nil {
		return err
	}
	if named != nil {
		if err := named(); err != nil {
			return err
		}
	}
	if err := linkUnnamed(f, name, path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// createNamed makes a file with a name, locked while it is made.
func createNamed(dir, kind string) (f *os.File, name string, err error) {
	RemoveUnlocked(dir, kind)
	if f, err = os.CreateTemp(dir, tempPrefix(kind)); err != nil { // 0600
		return nil, "", err
	}
	return f, f.Name(), TryLock(f, false)
}

// MakeTempDir makes a directory of mode 0700 for what takes long to make, beside where it is to be. It is locked until
// unlock is called; the next RemoveUnlocked removes what killed processes have left.
func MakeTempDir(ctx context.Context, dir, kind string) (path string, unlock func(), err error) {
	RemoveUnlocked(dir, kind)
	if path, err = os.MkdirTemp(dir, tempPrefix(kind)); err != nil {
		return "", nil, err
	}
	f, err := LockDir(ctx, path, lockPoll)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(path))
	}
	return path, func() { f.Close() }, nil
}

// RemoveUnlocked removes the temporary files and directories of a kind that no process has locked: killed ones left
// them.
func RemoveUnlocked(dir, kind string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix(kind)) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		if TryLock(f, false) == nil {
			os.RemoveAll(name)
		}
		f.Close()
	}
}
