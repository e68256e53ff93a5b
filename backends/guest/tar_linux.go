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

// xattr is how tar names extended attributes, since star.
const xattr = "SCHILY.xattr."

// pack sends what is in a directory as tar: files, directories and links. Links that lead out of it are left out,
// unless all are asked for.
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
		panic(http.ErrAbortHandler) // it can't be told otherwise any more
	}
	return nil
}

func packOne(out *tar.Writer, file, name string, all bool) error {
	info, err := os.Lstat(file)
	if err != nil {
		return nil // it is gone
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
		return nil // a socket, a fifo
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
	_, err = io.CopyN(out, f, h.Size) // one that became shorter meanwhile can't be told
	return err
}

// unpack writes what a tar has into a directory: all of it, or nothing. Nothing of it leaves the directory.
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
	if _, err := io.Copy(io.Discard, body); err != nil { // whose end says whether it is what was sent
		return err
	}
	if !end.isWhole() {
		return errorf(Invalid, "this is no whole tar: its end is missing")
	}
	if err := merge(temp, dir); err != nil {
		return err
	}
	return writeAnswer(w)(u.Unpacked, nil)
}

// trailer is the last bytes of a tar, which are zeros: the reader takes a tar that was cut between two files for a
// whole one.
type trailer struct{ last []byte }

const trailerSize = 1024

func (t *trailer) Write(b []byte) (int, error) {
	t.last = append(t.last, b[max(0, len(b)-trailerSize):]...)
	t.last = t.last[max(0, len(t.last)-trailerSize):]
	return len(b), nil
}

func (t *trailer) isWhole() bool { return bytes.Equal(t.last, make([]byte, trailerSize)) }

// unpacking is a tar that is read into a new directory.
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
			return errorf(Invalid, "this is no whole tar: %v", err)
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
	u.root.Remove(name) // the last of the same name counts
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o600)
	if err != nil {
		return err
	}
	if _, err = io.CopyBuffer(struct{ io.Writer }{f}, content, make([]byte, chunk)); errors.Is(err, io.ErrUnexpectedEOF) {
		err = errorf(Invalid, "this is no whole tar: %v", err)
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

// merge moves what is in a directory into another one, each file at once. Directories that are in both stay, with what
// they have. Nothing is moved where a file would take the place of a directory, or the other way round.
func merge(from, to string) error {
	if err := mergeEach(from, to, func(string, string) error { return nil }); err != nil {
		return err
	}
	return mergeEach(from, to, os.Rename)
}

// mergeEach calls move for what is in a directory, but not for directories that the other one has, too: for what is in
// those.
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
			return fmt.Errorf("put %s into its place: %w", target, err)
		}
	}
	return nil
}
