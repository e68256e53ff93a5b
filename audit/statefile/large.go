package statefile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// CreateLarge creates the file path, of mode 0600, with the content that fill writes: it exists whole and synced, or
// not at all, also after a kill. An existing file stays, and is fs.ErrExist. named, if not nil, is called after the
// sync; its error removes the file. kind is part of the temporary name, if one is needed: see [RemoveUnlocked].
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

// createNamed creates a temporary file with a name, locked.
func createNamed(dir, kind string) (f *os.File, name string, err error) {
	RemoveUnlocked(dir, kind)
	if f, err = os.CreateTemp(dir, tempPrefix(kind)); err != nil { // 0600
		return nil, "", err
	}
	return f, f.Name(), TryLock(f, false)
}

// MakeTempDir creates a directory of mode 0700 for slow work, beside its destination. It is locked until unlock is
// called; RemoveUnlocked removes leftovers of killed processes.
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

// RemoveUnlocked removes the unlocked temporary files and directories of a kind, which killed processes left.
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
