package guest

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// xattr is the prefix by which tar has named extended attributes since star.
const xattr = "SCHILY.xattr."

// pack sends a directory's files, directories and links as a tar. Links that lead out of it are left out, unless
// AllLinks is set.
func pack(w http.ResponseWriter, r *http.Request) error {
	dir, all := r.FormValue("path"), r.FormValue("links") != ""
	if info, err := os.Stat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return errorf(NotDirectory, "path is not a directory: %s", dir)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	out := tar.NewWriter(w)
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if file == dir || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		return packOne(out, file, name, all)
	})
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the response has begun: only an abort can report the error
	}
	return nil
}

func packOne(out *tar.Writer, file, name string, all bool) error {
	info, err := os.Lstat(file)
	if err != nil {
		return nil // removed meanwhile
	}
	h := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), ModTime: encodableTime(info.ModTime()), Format: tar.FormatPAX}
	switch {
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		return out.WriteHeader(h)
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = os.Readlink(file); err != nil || !all && !LeadsInside(name, h.Linkname) {
			return nil
		}
		return out.WriteHeader(h)
	case !info.Mode().IsRegular():
		return nil // socket or FIFO
	}
	f, info, err := openRegular(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	for k, v := range metadata(file) {
		if h.PAXRecords == nil {
			h.PAXRecords = map[string]string{}
		}
		h.PAXRecords[xattr+attribute+k] = v
	}
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyN(out, f, h.Size) // a file that shrank meanwhile fails here
	return err
}

// unpack writes the contents of a tar into a directory: all of it, or nothing. Nothing of it leaves the directory.
func unpack(w http.ResponseWriter, r *http.Request) error {
	dir := r.FormValue("path")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(dir, ".tar-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	root, err := os.OpenRoot(temp)
	if err != nil {
		return err
	}
	defer root.Close()
	u := &unpacking{root: root, links: map[string]bool{}, all: r.FormValue("links") != ""}
	var end trailer
	body := io.TeeReader(r.Body, &end)
	if err := u.unpackAll(tar.NewReader(body)); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, body); err != nil { // only the body's end proves that it is complete
		return err
	}
	if !end.isWhole() {
		return errorf(Invalid, "the tar is not complete: its end is missing")
	}
	if err := merge(temp, dir); err != nil {
		return err
	}
	return writeAnswer(w)(u.Unpacked, nil)
}

// trailer records the last bytes of a tar, which must be zeros: the reader accepts a tar that was cut between two
// files.
type trailer struct{ last []byte }

const trailerSize = 1024

func (t *trailer) Write(b []byte) (int, error) {
	t.last = append(t.last, b[max(0, len(b)-trailerSize):]...)
	t.last = t.last[max(0, len(t.last)-trailerSize):]
	return len(b), nil
}

func (t *trailer) isWhole() bool { return bytes.Equal(t.last, make([]byte, trailerSize)) }

// unpacking is the state of reading a tar into a new directory.
type unpacking struct {
	Unpacked
	root  *os.Root
	links map[string]bool // names of links so far
	all   bool            // links may lead anywhere
}

func (u *unpacking) unpackAll(in *tar.Reader) error {
	for {
		h, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errorf(Invalid, "the tar is not complete: %v", err)
		}
		if err != nil {
			return err
		}
		if err := u.unpackEntry(h, in); err != nil {
			return err
		}
	}
}

func (u *unpacking) unpackEntry(h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	if name == "." {
		return nil
	}
	if !filepath.IsLocal(name) {
		return errorf(Invalid, "%.200q would lead out of the directory", h.Name)
	}
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if u.links[at] {
			return errorf(Invalid, "%.200q is behind a link of the tar", h.Name)
		}
	}
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(h.Mode & 0o777)
	switch h.Typeflag {
	case tar.TypeDir:
		return u.root.MkdirAll(name, mode|0o700)
	case tar.TypeReg:
		u.Files++
		u.Bytes += h.Size
		return u.unpackFile(name, mode, h, content)
	case tar.TypeSymlink:
		if !u.all && !LeadsInside(name, h.Linkname) {
			return errorf(Invalid, "the link %.200q would lead out of the directory", h.Name)
		}
		u.links[name] = true
		return u.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		from := path.Clean(h.Linkname)
		if !filepath.IsLocal(from) || u.links[from] {
			return errorf(Invalid, "the link %.200q would lead out of the directory", h.Name)
		}
		u.Files++
		return u.root.Link(from, name)
	case tar.TypeXGlobalHeader:
		return nil
	}
	return errorf(Invalid, "%.200q is neither a file, nor a directory, nor a link", h.Name)
}

func (u *unpacking) unpackFile(name string, mode fs.FileMode, h *tar.Header, content io.Reader) error {
	u.root.Remove(name) // the last entry of a name counts
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o600)
	if err != nil {
		return err
	}
	if _, err = io.CopyBuffer(struct{ io.Writer }{f}, content, make([]byte, chunk)); errors.Is(err, io.ErrUnexpectedEOF) {
		err = errorf(Invalid, "the tar is not complete: %v", err)
	}
	m := map[string]string{}
	for k, v := range h.PAXRecords {
		if key, is := strings.CutPrefix(k, xattr+attribute); is {
			m[key] = v
		}
	}
	if err == nil {
		err = CheckMetadata(m)
	}
	if err == nil {
		err = setMetadata(f, m)
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err = errors.Join(err, f.Close()); err == nil && !h.ModTime.IsZero() {
		err = u.root.Chtimes(name, h.ModTime, h.ModTime)
	}
	return err
}

// merge moves the contents of a directory into another one, file by file. Directories that exist in both keep their
// contents. Nothing is moved if a file would replace a directory, or the other way round.
func merge(from, to string) error {
	if err := mergeEach(from, to, func(string, string) error { return nil }); err != nil {
		return err
	}
	return mergeEach(from, to, os.Rename)
}

// mergeEach calls move for each entry of a directory; for a directory that exists in both, it descends instead.
func mergeEach(from, to string, move func(source, target string) error) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		there, err := os.Lstat(target)
		switch {
		case err == nil && e.IsDir() && there.IsDir():
			err = mergeEach(source, target, move)
		case err == nil && there.IsDir():
			err = errorf(IsDirectory, "path is a directory: %s", target)
		case err == nil && e.IsDir():
			err = errorf(NotDirectory, "path is not a directory: %s", target)
		default:
			err = move(source, target)
		}
		if err != nil {
			return fmt.Errorf("rename %s into place: %w", target, err)
		}
	}
	return nil
}
