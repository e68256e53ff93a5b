package snapshot

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
)

// Pack writes the source as a tar archive without owners. It leaves out files that the owner of the directory may not
// read.
func (s Source) Pack(ctx context.Context, w io.Writer) (Names, error) {
	top, err := s.Dir.Stat(".")
	if err != nil {
		return nil, err
	}
	out := tar.NewWriter(w)
	names, err := s.Read(ctx, func(e Entry) error {
		if private(e.Info, top) {
			return fs.ErrPermission
		}
		var from io.ReadCloser
		if e.Open != nil { // open it before writing the header, which content must follow
			var err error
			if from, err = e.Open(); err != nil {
				return err
			}
			defer from.Close()
		}
		header, err := tar.FileInfoHeader(e.Info, e.Target)
		if err != nil {
			return err
		}
		*header = tar.Header{Name: e.Name, Typeflag: header.Typeflag, Linkname: e.Target, Size: header.Size, Mode: header.Mode,
			ModTime: header.ModTime, Format: tar.FormatPAX}
		if err := out.WriteHeader(header); err != nil || from == nil {
			return wrap(err)
		}
		// The content of a file that has grown is cut; that of a file that has shrunk is padded with zeros.
		_, err = io.CopyN(out, io.MultiReader(from, zeros{}), header.Size)
		return wrap(err)
	})
	if err == nil {
		err = out.Close()
	}
	return names, err
}

// packError marks an error of writing the archive, as opposed to one of reading an entry.
type packError struct{ err error }

func (e *packError) Error() string { return e.err.Error() }

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return &packError{err}
}

// zeros is an endless file.
type zeros struct{}

// Read implements [io.Reader].
func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// Unpack calls f for each entry of an archive that Pack has written.
func Unpack(r io.Reader, f func(Entry) error) error {
	in := tar.NewReader(r)
	for {
		header, err := in.Next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		e := Entry{Name: strings.TrimSuffix(header.Name, "/"), Info: header.FileInfo(), Target: header.Linkname}
		switch header.Typeflag {
		case tar.TypeReg:
			e.Open = func() (io.ReadCloser, error) { return io.NopCloser(in), nil }
		case tar.TypeDir, tar.TypeSymlink:
		default:
			return errors.New("an archive with an entry of another kind")
		}
		if !filepath.IsLocal(e.Name) {
			return errors.New("an archive with a name that leads out of it")
		}
		if err := f(e); err != nil {
			return err
		}
	}
}
