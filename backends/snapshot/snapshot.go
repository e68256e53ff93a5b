// Package snapshot reads a directory of the host for a sandbox that works on a copy of it, and records the copied
// names. If a copied name is missing later, a program has removed it; any other missing name was never copied.
//
// A file uses those behind it in this order: tar, snapshot.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
)

// Entry is a directory, a regular file or a symbolic link to copy.
type Entry struct {
	Name   string // relative to the directory
	Info   fs.FileInfo
	Target string                        // of a symbolic link
	Open   func() (io.ReadCloser, error) // of a regular file: the listed file, not a replacement
}

// Source is a directory to copy.
type Source struct {
	Dir    *os.Root
	Hidden map[string]bool // names to leave out, with all paths below them
	Disk   int64           // maximum size of the copy in bytes
}

// ErrFull is the error of a copy that exceeds Source.Disk.
var ErrFull = errors.New("the copy is larger than the disk")

// Names are the copied names by their directory; "." is the directory itself.
type Names map[string]map[string]bool

// Read calls f for each entry of the source without following links, and for a directory before its content. It leaves
// out entries of other kinds, and entries that this process may not read. An error of f that something does not exist,
// or may not be read, means that the entry is left out.
func (s Source) Read(ctx context.Context, f func(Entry) error) (Names, error) {
	names := Names{}
	for todo := []string{"."}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		below, err := s.read(ctx, at, names, f)
		if err != nil {
			return nil, err
		}
		todo = append(todo, below...)
	}
	return names, nil
}

// read calls f for the entries of one directory, and returns the directories among them.
func (s *Source) read(ctx context.Context, at string, names Names, f func(Entry) error) (below []string, err error) {
	here, err := s.Dir.OpenRoot(at)
	if at != "." && isLost(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", path.Join(s.Dir.Name(), at), err)
	}
	defer here.Close()
	list, err := list(here)
	if err != nil {
		return nil, err
	}
	names[at] = make(map[string]bool, len(list))
	for _, base := range list {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e := Entry{Name: path.Join(at, base)}
		if e.Info, err = here.Lstat(base); err != nil || s.Hidden[e.Name] {
			continue
		}
		switch e.Info.Mode().Type() {
		case fs.ModeDir:
		case fs.ModeSymlink:
			e.Target, err = here.Readlink(base)
		case 0:
			e.Open = func() (io.ReadCloser, error) { return open(here, base, e.Info) }
		default:
			continue
		}
		if err == nil {
			err = s.take(e)
		}
		if err == nil {
			err = f(e)
		}
		if isLost(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		names[at][base] = true
		if e.Info.IsDir() {
			below = append(below, e.Name)
		}
	}
	return below, nil
}

// take counts the bytes that an entry and its inode occupy.
func (s *Source) take(e Entry) error {
	const page, inode = 4 << 10, 1 << 10
	s.Disk -= inode
	if e.Open != nil {
		s.Disk -= (e.Info.Size() + page - 1) &^ (page - 1)
	}
	if s.Disk < 0 {
		return ErrFull
	}
	return nil
}

// Has reports whether a name was copied.
func (n Names) Has(name string) bool { return n[path.Dir(name)][path.Base(name)] }

// Missing returns the copied names that a later listing of the copy lacks. present holds the copied names in that
// listing, true for a directory. Missing leaves out the content of a missing directory.
func (n Names) Missing(present map[string]bool) (missing []string) {
	for dir, names := range n {
		if dir != "." && !present[dir] {
			continue
		}
		for base := range names {
			if _, there := present[path.Join(dir, base)]; !there {
				missing = append(missing, path.Join(dir, base))
			}
		}
	}
	slices.Sort(missing)
	return missing
}

// list returns the names in a directory.
func list(dir *os.Root) ([]string, error) {
	f, err := openQuietly(dir, ".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// openQuietly opens a file for reading. It does not wait for a writer if a FIFO is in the file's place, and it leaves
// the access time as it is if the kernel permits that.
func openQuietly(dir *os.Root, name string) (*os.File, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|noAccessTime, 0)
	if noAccessTime != 0 && errors.Is(err, syscall.EPERM) {
		f, err = dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	return f, err
}

// errReplaced is the error for a file that another file has replaced.
var errReplaced = errors.New("it was replaced")

// open opens the regular file that want describes, and no replacement of it.
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

// isLost reports whether err means that an entry is gone, or that this process may not read it.
func isLost(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, errReplaced)
}
