package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// statPath describes one path; a link at its end is not followed.
func statPath(path string) (*Entry, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	return newEntry(path, info), nil
}

func newEntry(path string, info fs.FileInfo) *Entry {
	e := &Entry{Name: info.Name(), Path: path, Kind: kindOf(info.Mode()), Size: info.Size(), Mode: uint32(info.Mode().Perm()),
		Text: info.Mode().String(), Modified: encodableTime(info.ModTime()), Metadata: metadata(path)}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		e.Owner, e.Group = strconv.Itoa(int(st.Uid)), strconv.Itoa(int(st.Gid))
		if u, err := user.LookupId(e.Owner); err == nil {
			e.Owner = u.Username
		}
		if g, err := user.LookupGroupId(e.Group); err == nil {
			e.Group = g.Name
		}
	}
	if e.Kind != Symlink {
		return e
	}
	e.Target = path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		e.Target = target
	}
	if to, err := os.Stat(path); err == nil {
		e.Kind, e.Mode = kindOf(to.Mode()), uint32(to.Mode().Perm())
	}
	return e
}

// encodableTime returns a time that JSON and the protocol can represent: a file may have any.
func encodableTime(t time.Time) time.Time {
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	switch t = t.UTC(); {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	}
	return t
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return File
	case mode.IsDir():
		return Directory
	case mode&fs.ModeSymlink != 0:
		return Symlink
	}
	return Other
}

// metadata returns the metadata that was uploaded with the file; nil if it can't be read.
func metadata(path string) map[string]string {
	var m map[string]string
	for _, name := range attributeNames(func(list []byte) (int, error) { return unix.Llistxattr(path, list) }) {
		value := make([]byte, maxMetadata)
		n, err := unix.Lgetxattr(path, name, value)
		if err != nil || !isPrintable(name+string(value[:n])) {
			continue
		}
		if m == nil {
			m = map[string]string{}
		}
		m[strings.TrimPrefix(name, attribute)] = string(value[:n])
	}
	return m
}

// attributeNames returns the names of a file's metadata among the attributes that list returns.
func attributeNames(list func([]byte) (int, error)) (names []string) {
	all := make([]byte, 64<<10)
	n, err := list(all)
	if err != nil {
		return nil
	}
	for name := range strings.SplitSeq(string(all[:n]), "\x00") {
		if strings.HasPrefix(name, attribute) {
			names = append(names, name)
		}
	}
	return names
}

// setMetadata replaces the metadata of an open file.
func setMetadata(f *os.File, m map[string]string) error {
	for _, name := range attributeNames(func(list []byte) (int, error) { return unix.Flistxattr(int(f.Fd()), list) }) {
		unix.Fremovexattr(int(f.Fd()), name)
	}
	for k, v := range m {
		if err := unix.Fsetxattr(int(f.Fd()), attribute+k, []byte(v), 0); err != nil {
			return fmt.Errorf("set the metadata of %s: %w", f.Name(), err)
		}
	}
	return nil
}

// listDir walks a directory in lexical order, depth levels deep. It follows no links.
func listDir(dir string, depth int) ([]*Entry, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil && strings.Contains(err.Error(), "too many links") {
		return nil, errorf(Invalid, "%s: too many links", dir)
	}
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return nil, errorf(NotDirectory, "path is not a directory: %s", dir)
	}
	entries := []*Entry{}
	err = filepath.WalkDir(real, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) && path != real {
			return nil
		}
		if err != nil || path == real {
			return err
		}
		rest, err := filepath.Rel(real, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil // removed meanwhile
		}
		if len(entries) == maxEntries {
			return errorf(TooMany, "%s has more than %d entries: list its directories one by one", dir, maxEntries)
		}
		e := newEntry(path, info)
		e.Path = filepath.Join(dir, rest)
		entries = append(entries, e)
		if d.IsDir() && strings.Count(rest, "/")+1 >= depth {
			return filepath.SkipDir
		}
		return nil
	})
	return entries, err
}

// sendFile sends a regular file.
func sendFile(w http.ResponseWriter, r *http.Request) error {
	path := r.FormValue("path")
	f, info, err := openRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head, err := json.Marshal(newEntry(path, info))
	if err != nil {
		return err
	}
	w.Header().Set(headerEntry, strconv.QuoteToASCII(string(head)))
	if _, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{f}, make([]byte, chunk)); err != nil {
		panic(http.ErrAbortHandler) // the response has begun: only an abort can report the error
	}
	return nil
}

// openRegular opens a file for reading. A FIFO must not block it, and a device has no content.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = errorf(IsDirectory, "path '%s' is a directory", path)
	case !info.Mode().IsRegular():
		err = errorf(Invalid, "path '%s' is not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// receiveFile writes a file from the request's body, and makes its parent directories.
func receiveFile(w http.ResponseWriter, r *http.Request) error {
	var p FileWrite
	if err := json.Unmarshal([]byte(r.FormValue("put")), &p); err != nil {
		return errorf(Invalid, "%v", err)
	}
	if err := CheckMetadata(p.Metadata); err != nil {
		return err
	}
	if info, err := os.Stat(p.Path); err == nil && info.IsDir() {
		return errorf(IsDirectory, "path is a directory: %s", p.Path)
	}
	if err := makeParents(p.Path); err != nil {
		return err
	}
	if p.Mode == 0 {
		p.Mode = 0o644
	}
	write := writeInPlace
	if p.Whole {
		write = writeWhole
	}
	if err := write(p, r.Body); err != nil {
		return err
	}
	return writeAnswer(w)(statPath(p.Path))
}

func makeParents(path string) error { return os.MkdirAll(filepath.Dir(path), 0o755) }

// writeInPlace overwrites the file itself.
func writeInPlace(p FileWrite, body io.Reader) error {
	f, err := os.OpenFile(p.Path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NONBLOCK, fs.FileMode(p.Mode&0o777))
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		f.Close()
		return errorf(Invalid, "path '%s' is not a regular file", p.Path)
	}
	f.Chown(os.Getuid(), os.Getgid()) // changes nothing, but E2B's clients expect its event between those of creation and content
	return writeContent(f, p, body)
}

// writeWhole writes a new file beside the old one and renames it to the path.
func writeWhole(p FileWrite, body io.Reader) error {
	if target, err := filepath.EvalSymlinks(p.Path); err == nil {
		p.Path = target
	}
	f, err := os.CreateTemp(filepath.Dir(p.Path), ".upload-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	mode := fs.FileMode(p.Mode & 0o777)
	if old, err := os.Stat(p.Path); err == nil {
		mode = old.Mode().Perm()
	}
	if err := f.Chmod(mode); err != nil {
		f.Close()
		return err
	}
	if err := writeContent(f, p, body); err != nil {
		return err
	}
	return os.Rename(f.Name(), p.Path)
}

// writeContent writes the body and the metadata, and closes the file.
func writeContent(f *os.File, p FileWrite, body io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{f}, body, make([]byte, chunk))
	if err == nil {
		err = setMetadata(f, p.Metadata)
	}
	return errors.Join(err, f.Close())
}

// mkdir makes a directory and its parents. An existing directory is an error.
func mkdir(path string) (*Entry, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, errorf(Exists, "directory already exists: %s", path)
	} else if err == nil {
		return nil, errorf(NotDirectory, "path already exists but it is not a directory: %s", path)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	return statPath(path)
}

// move renames a file or directory, and makes the parents of its new path.
func move(from, to string) (*Entry, error) {
	if _, err := os.Lstat(from); err != nil {
		return nil, err
	}
	if err := makeParents(to); err != nil {
		return nil, err
	}
	err := os.Rename(from, to)
	if errors.Is(err, unix.EXDEV) { // /home and /tmp are mounts of their own
		err = moveAcross(from, to)
	}
	if err != nil {
		return nil, err
	}
	return statPath(to)
}

// moveAcross moves a file or a directory to another mount: it copies over the destination and then removes the
// original.
func moveAcross(from, to string) error {
	temp, err := os.MkdirTemp(filepath.Dir(to), ".move-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	copied := filepath.Join(temp, "it")
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		at := copied + strings.TrimPrefix(path, from)
		if d.IsDir() {
			return os.Mkdir(at, info.Mode().Perm()|0o700)
		}
		return copyOne(path, at, info)
	})
	if err != nil {
		return err
	}
	if err := os.Rename(copied, to); err != nil {
		return err
	}
	return os.RemoveAll(from)
}

// copyOne copies a link or a regular file.
func copyOne(from, to string, info fs.FileInfo) error {
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	f, _, err := openRegular(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return writeInPlace(FileWrite{Path: to, Mode: uint32(info.Mode().Perm()), Metadata: metadata(from)}, f)
}
