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

// makeFile creates path in dir, with the content that fill writes. The file is built under another name and then
// linked into place: of several processes one wins, a killed process leaves no partial file at path, and an existing
// file is not replaced.
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

// syncDir makes the entries of a directory durable, where the system and the file system can.
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

// removeAbandoned removes the temporary directories of processes that were killed in makeFile, which takes some
// milliseconds: a directory that is a minute old has no owner.
func removeAbandoned(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, newPrefix+"*"))
	for _, name := range left {
		if info, err := os.Lstat(name); err == nil && info.IsDir() && time.Since(info.ModTime()) > time.Minute {
			os.RemoveAll(name)
		}
	}
}
