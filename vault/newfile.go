package vault

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const newPrefix = ".new-vault-"

// makeFile makes the file path in the directory dir out of what fill writes. It is built under another
// name and then linked into place, whole: of many processes that come first one wins, a process that is
// killed leaves nothing half made at path, and what is there already is not replaced.
func makeFile(dir, path string, fill func(fresh string) error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	removeAbandoned(dir)
	tmp, err := os.MkdirTemp(dir, newPrefix) // 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	fresh := filepath.Join(tmp, "new")
	if err := fill(fresh); err != nil {
		return err
	}
	if err := os.Link(fresh, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

// syncDir makes what a directory lists durable. Not every system and file system can: then there is
// nothing more to be done.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	err = f.Sync()
	f.Close()
	if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return nil
}

// removeAbandoned removes what processes left that were killed while they made a file, which takes
// some milliseconds: a directory of a minute ago is nobody's.
func removeAbandoned(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, newPrefix+"*"))
	for _, name := range left {
		if info, err := os.Lstat(name); err == nil && info.IsDir() && time.Since(info.ModTime()) > time.Minute {
			os.RemoveAll(name)
		}
	}
}
