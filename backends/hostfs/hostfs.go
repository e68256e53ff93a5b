// Package hostfs opens directories and files of this machine by names that people give, where programs may have been
// before.
//
// A program that was shown a directory with :rw can have left a link there, and one that still runs can put a link in
// the place of anything there at any moment. So a name is walked by descriptors, one part at a time, and a link is
// followed only where no program can have put it: see [LinkError]. What was opened stays what it is, wherever its name leads
// later, and all below it is reached by os.Root, out of which nothing leads. Files appear under their names whole, by a
// rename: what was put at a name is never written to.
//
// What it does not know: directories of root's that a run of root's had shown with :rw. Another user who names a path
// below one trusts it.
package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// maxLinks is how many links Linux follows in one name: path_resolution(7).
const maxLinks = 40

// SystemDirs are directories of the operating system in which no program can have left a link, not even one that root
// has run: backends show them to none for writing. What a run of root's leaves elsewhere in root's directories is
// root's.
var SystemDirs = []string{"/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/run", "/sbin", "/usr", "/var"}

// LinkError is the error for a name that leads through a link which a program may have left. Links in the root directory are
// followed, since nobody can be shown all of the host, and those in directories of root's that only root may write to:
// where we are root, in SystemDirs, but not below.
type LinkError struct{ Path, To string }

func (l *LinkError) Error() string {
	return fmt.Sprintf("%q is a link, and a program that could write there may have left it", l.Path)
}

// Abs returns the absolute path of name. A relative one starts where the kernel says that we are: $PWD may lead there
// through links.
func Abs(name string) (string, error) {
	if filepath.IsAbs(name) || runtime.GOOS == "windows" {
		return filepath.Abs(name)
	}
	dir, err := syscall.Getwd()
	return filepath.Join(dir, name), err
}

// walked is how far a name leads.
type walked struct {
	at    handle
	path  string   // of at: absolute, without links
	rest  []string // the parts of the name behind it
	there bool     // rest is one part, and that is there and no directory
}

// findExisting opens the last directory on the way to name that is there.
func findExisting(name string) (walked, error) {
	next, err := Abs(name)
	for range maxLinks {
		if err != nil {
			return walked{}, err
		}
		var f walked
		if f, next, err = walk(next); next == "" {
			return f, err
		}
	}
	return walked{}, pathError(name, syscall.ELOOP)
}

// walk goes as far as there are directories. next is the name to go on with where a link leads on, else "".
func walk(name string) (f walked, next string, err error) {
	f.path = filepath.VolumeName(name) + string(filepath.Separator)
	f.rest = strings.FieldsFunc(name[len(f.path):], func(c rune) bool { return c == filepath.Separator })
	if f.at, err = openTop(f.path); err != nil {
		return f, "", pathError(f.path, err)
	}
	for top := true; len(f.rest) > 0; top = false {
		below, to, err := f.at.step(f.rest[0])
		here := filepath.Join(f.path, f.rest[0])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return f, "", nil
		case errors.Is(err, syscall.ENOTDIR) && len(f.rest) == 1:
			f.there = true
			return f, "", nil
		case err != nil:
			f.at.Close()
			return f, "", pathError(here, err)
		case to != "":
			follow := f.at.trusted(top, os.Geteuid() != 0 || slices.Contains(SystemDirs, f.path))
			f.at.Close()
			if !filepath.IsAbs(to) {
				to = filepath.Join(f.path, to)
			}
			if !follow {
				return f, "", &LinkError{here, to}
			}
			return f, filepath.Join(to, filepath.Join(f.rest[1:]...)), nil
		}
		f.at.Close()
		f.at, f.path, f.rest = below, here, f.rest[1:]
	}
	return f, "", nil
}

func pathError(name string, err error) error {
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err
	}
	return &fs.PathError{Op: "open", Path: name, Err: err}
}

// notExist is the error for a name that leads no further than f.
func (f walked) notExist() error {
	if f.there {
		return pathError(filepath.Join(f.path, f.rest[0]), syscall.ENOTDIR)
	}
	return pathError(filepath.Join(f.path, filepath.Join(f.rest...)), syscall.ENOENT)
}

// Resolve returns the absolute path, without links, of something that is there.
func Resolve(name string) (string, error) {
	f, err := findExisting(name)
	if err != nil {
		return "", err
	}
	defer f.at.Close()
	if len(f.rest) > 0 && !f.there {
		return "", f.notExist()
	}
	return filepath.Join(f.path, filepath.Join(f.rest...)), nil
}

// OpenDir opens a directory, which the caller closes.
func OpenDir(name string) (*os.Root, error) {
	f, err := findExisting(name)
	if err != nil {
		return nil, err
	}
	defer f.at.Close()
	if len(f.rest) > 0 {
		return nil, f.notExist()
	}
	return f.at.root(f.path)
}

// OpenParent opens the directory that name lies in, which the caller closes, and returns the last part of name, which need
// not be there.
func OpenParent(name string) (dir *os.Root, base string, err error) {
	path, err := Abs(name)
	if err == nil && (path == filepath.Dir(path) || name == "" || os.IsPathSeparator(name[len(name)-1])) {
		err = pathError(name, syscall.EISDIR)
	}
	if err == nil {
		dir, err = OpenDir(filepath.Dir(path))
	}
	return dir, filepath.Base(path), err
}

// Open opens a regular file for reading, without waiting for any other.
func Open(name string) (*os.File, fs.FileInfo, error) {
	f, err := findExisting(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.at.Close()
	switch {
	case len(f.rest) == 0:
		return nil, nil, pathError(f.path, syscall.EISDIR)
	case !f.there:
		return nil, nil, f.notExist()
	}
	dir, err := f.at.root(f.path)
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	file, info, err := statefile.OpenIn(dir.Lstat, dir.OpenFile, f.rest[0])
	if err != nil {
		err = pathError(filepath.Join(f.path, f.rest[0]), err)
	}
	return file, info, err
}
