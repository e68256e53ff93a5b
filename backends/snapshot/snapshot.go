// Package snapshot reads a directory of the host for a sandbox that works on a copy of it, and remembers which names
// the copy got: a name that is missing from the copy later was removed there, unless it was never copied.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// Entry is a directory, a regular file or a symbolic link to copy.
type Entry struct {
	Name   string // relative to the directory
	Info   fs.FileInfo
	Target string                   // of a symbolic link
	Open   func() (*os.File, error) // of a regular file: that file, not a replacement
}

// Names are the names that were copied, by the directory that holds them; "." is the directory itself.
type Names map[string][]string

// Read calls f for every entry of a directory, in which no link is followed: a directory comes before its content. It
// leaves out the names in hidden, everything that is of another kind, and everything that this process may not read.
func Read(ctx context.Context, dir *os.Root, hidden map[string]bool, f func(Entry) error) (Names, error) {
	names := Names{}
	for todo := []string{"."}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		below, err := names.read(ctx, dir, at, hidden, f)
		if err != nil {
			return nil, err
		}
		todo = append(todo, below...)
	}
	return names, nil
}

// read calls f for the entries of one directory, and returns its directories.
func (n Names) read(ctx context.Context, dir *os.Root, at string, hidden map[string]bool, f func(Entry) error) (below []string, err error) {
	here, err := dir.OpenRoot(at)
	if at != "." && isLost(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", path.Join(dir.Name(), at), err)
	}
	defer here.Close()
	list, err := List(here)
	if err != nil {
		return nil, err
	}
	n[at] = make([]string, 0, len(list))
	for _, base := range list {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e := Entry{Name: path.Join(at, base)}
		if e.Info, err = here.Lstat(base); err != nil || hidden[e.Name] {
			continue
		}
		switch e.Info.Mode().Type() {
		case fs.ModeDir:
			below = append(below, e.Name)
		case fs.ModeSymlink:
			e.Target, err = here.Readlink(base)
		case 0:
			e.Open = func() (*os.File, error) { return open(here, base, e.Info) }
		default:
			continue
		}
		if err == nil {
			err = f(e)
		}
		if isLost(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		n[at] = append(n[at], base)
	}
	return below, nil
}

// List returns the names in a directory.
func List(dir *os.Root) ([]string, error) {
	f, err := openQuietly(dir, ".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// openQuietly opens a file for reading, without waiting for a FIFO in its place, and leaves the time of its last access
// as it is, where the kernel lets its owner.
func openQuietly(dir *os.Root, name string) (*os.File, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|noAccessTime, 0)
	if noAccessTime != 0 && errors.Is(err, syscall.EPERM) {
		f, err = dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	return f, err
}

// errReplaced is the error for a file that is another by now.
var errReplaced = errors.New("it was replaced")

// open opens a regular file, and no replacement.
func open(dir *os.Root, name string, want fs.FileInfo) (*os.File, error) {
	f, err := openQuietly(dir, name)
	if err != nil {
		return nil, err
	}
	if got, err := f.Stat(); err != nil || !os.SameFile(got, want) {
		return nil, errors.Join(errReplaced, f.Close())
	}
	return f, nil
}

// isLost reports whether err is about an entry that is gone, or that this process may not read.
func isLost(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, errReplaced)
}
