package hostfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// What may be in the place of a directory.
var (
	ErrNotDir   = errors.New("a link or a file is in place of its directory")
	ErrReplaced = errors.New("its directory was replaced")
)

// Dir is a directory to write to later: what is there of its path is open, and what is missing is made by Open.
type Dir struct {
	Path string // absolute, without links
	last *os.Root
	from string   // the path of last
	rest []string // what is missing behind it
	made *os.Root
}

// FindDir opens what there is of a directory, in which it must be possible to make files. It makes nothing.
func FindDir(name string) (*Dir, error) {
	f, err := findExisting(name)
	if err != nil {
		return nil, err
	}
	defer f.at.Close()
	if f.there {
		return nil, f.notExist()
	}
	d := &Dir{Path: filepath.Join(f.path, filepath.Join(f.rest...)), from: f.path, rest: f.rest}
	if d.last, err = f.at.root(f.path); err != nil {
		return nil, err
	}
	if err := checkWritable(d.last); err != nil {
		return nil, errors.Join(pathError(f.path, err), d.last.Close())
	}
	return d, nil
}

// LastExisting returns the path of the last directory on the way to d that was there: d itself, or one above it.
func (d *Dir) LastExisting() string { return d.from }

// Open returns the directory, and makes it at the first call. It is open until d is closed.
func (d *Dir) Open() (*os.Root, error) {
	if d.made != nil {
		return d.made, nil
	}
	var err error
	if d.made, err = OpenBelow(d.last, d.rest...); err != nil {
		return nil, pathError(d.Path, err)
	}
	return d.made, nil
}

// Close closes the directory.
func (d *Dir) Close() error {
	err := d.last.Close()
	if d.made != nil {
		err = errors.Join(err, d.made.Close())
	}
	return err
}

// MakeDir opens a directory, which the caller closes, and makes it where it is missing.
func MakeDir(name string) (*os.Root, error) {
	d, err := FindDir(name)
	if err != nil {
		return nil, err
	}
	defer d.last.Close()
	return d.Open()
}

// OpenBelow opens the directory that parts lead to from dir, and makes what is missing of it, of mode 0755. No link is
// followed: one is ErrNotDir. The caller closes what is returned.
func OpenBelow(dir *os.Root, parts ...string) (*os.Root, error) {
	at, err := dir.OpenRoot(".")
	for _, elem := range parts {
		if err != nil {
			break
		}
		var next *os.Root
		next, err = step(at, elem)
		at.Close()
		at = next
	}
	return at, err
}

// step opens the directory elem in at, which it makes if there is nothing.
func step(at *os.Root, elem string) (*os.Root, error) {
	if err := at.Mkdir(elem, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return OpenIn(at, elem)
}

// OpenIn opens the directory elem of at. No link is followed: one is ErrNotDir. The caller closes what is returned.
func OpenIn(at *os.Root, elem string) (*os.Root, error) {
	want, err := at.Lstat(elem)
	if err != nil {
		return nil, err
	}
	if !want.IsDir() {
		return nil, ErrNotDir
	}
	return openChecked(at, elem, want)
}

// openChecked opens the directory elem, which was looked at. OpenRoot follows links that stay in the root, and a link can
// take the directory's place after the look: so what was opened must be the same. The "/." makes os open elem with
// O_DIRECTORY: without it, a FIFO in its place blocks us for ever.
func openChecked(at *os.Root, elem string, want fs.FileInfo) (*os.Root, error) {
	next, err := at.OpenRoot(elem + "/.")
	if err != nil {
		return nil, err
	}
	if got, err := next.Stat("."); err != nil || !os.SameFile(want, got) {
		return nil, errors.Join(ErrReplaced, next.Close())
	}
	return next, nil
}
