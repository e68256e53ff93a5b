package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFile bounds a client's file, in bytes: Claude Code's, which holds its history, has some MB.
const maxFile = 64 << 20

// backupSuffix is added to the name of a backup.
const backupSuffix = ".sandboxmcp.bak"

// file is a client's file with its content.
type file struct {
	path   string // with links followed
	data   []byte
	there  bool
	locked bool // it is read-only
	mode   fs.FileMode
}

// exists reports whether there is something at path; a symbolic link counts, whatever it leads to.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// open reads a file, which may be missing. It follows symbolic links, since dotfiles are often kept elsewhere, and refuses
// a file of more than maxFile bytes.
func open(path string) (file, error) {
	path, err := follow(path)
	if err != nil {
		return file{}, err
	}
	f := file{path: path, mode: 0o600}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return f, err
	case !info.Mode().IsRegular(): // to open a pipe would be to wait for who writes
		return f, fmt.Errorf("%q is no file", path)
	}
	r, err := os.Open(path)
	if err != nil {
		return f, err
	}
	defer r.Close()
	f.there, f.mode, f.locked = true, info.Mode().Perm(), info.Mode().Perm()&0o200 == 0
	f.data, err = io.ReadAll(io.LimitReader(r, maxFile+1))
	if err == nil && len(f.data) > maxFile {
		err = fmt.Errorf("%q has more than %d MB", path, maxFile>>20)
	}
	return f, err
}

// follow returns the path with symbolic links resolved, also where the file does not exist yet. 40 links are as many as
// Linux follows: path_resolution(7).
func follow(path string) (string, error) {
	for range 40 {
		target, err := os.Readlink(path)
		if err != nil {
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return path, nil // it is made when it is written
			}
			return filepath.Join(dir, filepath.Base(path)), nil
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return "", fmt.Errorf("%q is a link that leads to itself", path)
}

// in adds the name of the file to an error.
func (f file) in(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%q stays as it is: %w", f.path, err)
}

// original returns the content of the backup, from before there was an entry of ours: nil if there is no backup, and not nil
// if it is empty.
func (f file) original() ([]byte, error) {
	b, err := os.ReadFile(f.path + backupSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && b == nil {
		b = []byte{}
	}
	return b, err
}

// Backup returns the path of the backup: the file's content before there was an entry of ours.
func (c Change) Backup() string { return c.Path + backupSuffix }

// HasBackup reports whether Apply writes a backup.
func (c Change) HasBackup() bool { return c.backup != nil }

// Apply makes the change. Either all of it is done, or nothing; a file that has changed since it was planned is
// refused.
func (c Change) Apply() error {
	if !c.Changes() {
		return nil
	}
	now, err := open(c.Path)
	if err != nil {
		return err
	}
	if err := c.current(); err != nil {
		return err
	}
	if c.Remove {
		return os.Remove(c.Path)
	}
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o755); err != nil {
		return err
	}
	if c.backup != nil {
		err = replace(c.Backup(), c.backup, now, nil)
	} else if !c.There {
		err = dropped(c.Backup()) // it is of a file that has gone
	}
	if err != nil {
		return fmt.Errorf("keep what was there: %w", err)
	}
	if err := replace(c.Path, c.After, now, c.current); err != nil || !c.same {
		return err
	}
	return dropped(c.Backup())
}

// current returns an error if the file has changed since the change was planned.
func (c Change) current() error {
	now, err := open(c.Path)
	if err == nil && (now.there != c.There || !bytes.Equal(now.data, c.Before)) {
		err = fmt.Errorf("%q has changed meanwhile: try again", c.Path)
	}
	return err
}

// dropped removes a file. That there is none is no error.
func dropped(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// replace writes a file in one step, by rename(2) after fsync(2), with the mode and, where permitted, the owner of like. If
// last is not nil, it is called just before the rename and can prevent it: fsync may take long, and the client writes its file, too.
func replace(path string, data []byte, like file, last func() error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".sandboxmcp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Chmod(like.mode); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if like.there {
		own(f, like.path)
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if last != nil {
		if err = last(); err != nil {
			return err
		}
	}
	return os.Rename(f.Name(), path)
}
