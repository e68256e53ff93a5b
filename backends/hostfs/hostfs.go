// Package hostfs opens directories and files of this machine by names from users, where programs may have left
// links.
//
// A program that had a directory mounted with :rw can have left a link there, and a running one can replace
// anything there by a link at any moment. So hostfs walks a name by descriptors, one element at a time, and follows
// a link only where no program can have put it: see [LinkError]. An open directory stays the same, wherever its
// name leads later, and everything below it is reached by os.Root, which nothing escapes. Files appear under their
// names complete, by a rename: a file that already has the name is never written to.
//
// Known gap: directories of root that a run of root had mounted with :rw. Another user who names a path below one
// trusts it.
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

// maxLinks is the number of links that Linux follows in one name: path_resolution(7).
const maxLinks = 40

// SystemDirs are directories of the operating system in which no program can have left a link, not even one that
// root ran: backends mount them read-only for everybody. Links that a run of root left elsewhere in root's
// directories count as root's own.
var SystemDirs = []string{"/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/run", "/sbin", "/usr", "/var"}

// LinkError is the error for a name that leads through a link which a program may have left. Links in the root
// directory are followed, since nobody can mount all of the host, and those in directories that only root owns and
// may write to: if we are root, in SystemDirs, but not below.
type LinkError struct{ Path, To string }

func (l *LinkError) Error() string {
	return fmt.Sprintf("%q is a link, and a program that could write there may have left it", l.Path)
}

// Abs returns the absolute path of name. A relative name starts at the kernel's working directory, since $PWD may
// lead there through links.
func Abs(name string) (string, error) {
	if filepath.IsAbs(name) || runtime.GOOS == "windows" {
		return filepath.Abs(name)
	}
	dir, err := syscall.Getwd()
	return filepath.Join(dir, name), err
}

// walked describes how far a name leads.
type walked struct {
	at    handle
	path  string   // of at: absolute, without links
	rest  []string // remaining elements of the name
	there bool     // rest is one element, which exists and is not a directory
}

// findExisting opens the last existing directory on the path name.
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

// walk opens directories as far as they exist. next is the name to continue with after a link, else "".
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

// notExist returns the error for a name that leads no further than f.
func (f walked) notExist() error {
	if f.there {
		return pathError(filepath.Join(f.path, f.rest[0]), syscall.ENOTDIR)
	}
	return pathError(filepath.Join(f.path, filepath.Join(f.rest...)), syscall.ENOENT)
}

// Resolve returns the absolute path, without links, of an existing file or directory.
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

// OpenDir opens a directory. The caller closes it.
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

// OpenParent opens the parent directory of name, which the caller closes, and returns the last element of name,
// which need not exist.
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

// Open opens a regular file for reading. It refuses other files without blocking on them.
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
