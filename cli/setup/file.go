package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
)

// maxFile bounds a client's file, in bytes: Claude Code's, which includes its history, has some MB.
const maxFile = 64 << 20

// backupSuffix is the suffix of a backup's name.
const backupSuffix = ".sandboxmcp.bak"

// file is a client's file with its content.
type file struct {
	path  string // with links resolved
	data  []byte
	there bool
	info  fs.FileInfo // nil if it does not exist
}

// exists reports whether path exists; a symbolic link counts even if it is broken.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// openFile reads a file, which may be missing. It follows symbolic links, since dotfiles are often stored elsewhere, and
// refuses a broken link and a file of more than maxFile bytes.
func openFile(path string) (f file, err error) {
	f.path = path
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) && !exists(path) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	f.path = real
	if f.info, err = os.Stat(real); err == nil && !f.info.Mode().IsRegular() { // opening a FIFO would block
		err = fmt.Errorf("%q is not a file", path)
	}
	if err != nil {
		return f, err
	}
	r, err := os.Open(real)
	if err != nil {
		return f, err
	}
	defer r.Close()
	f.there = true
	if f.data, err = io.ReadAll(io.LimitReader(r, maxFile+1)); err == nil && len(f.data) > maxFile {
		err = fmt.Errorf("%q has more than %d MB", path, maxFile>>20)
	}
	return f, err
}

// check returns an error if the file has changed since it was read.
func (f file) check() error {
	now, err := openFile(f.path)
	if err == nil && (now.there != f.there || !bytes.Equal(now.data, f.data)) {
		err = fmt.Errorf("%q has changed meanwhile: try again", f.path)
	}
	return err
}

// write replaces the content of path in one step, by rename(2) after fsync(2), with the mode and, where permitted, the
// owner of f. It checks f just before the rename: fsync may take long, and the client writes its file, too.
func (f file) write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return hostfs.Replace(dir, filepath.Base(path), 0o600, func(to *os.File) error {
		if _, err := to.Write(data); err != nil {
			return err
		}
		if f.there {
			// Only root can change owners, and others own the file already; Windows has neither owners nor modes.
			chownLike(to, f.info)
			if err := to.Chmod(f.info.Mode().Perm()); err != nil && !errors.Is(err, errors.ErrUnsupported) {
				return err
			}
		}
		if err := to.Sync(); err != nil {
			return err
		}
		return f.check()
	})
}
