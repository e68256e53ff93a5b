package hostfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Errors for a path that has something other than a usable directory.
var (
	ErrNotDir   = errors.New("a link or a file is in place of its directory")
	ErrReplaced = errors.New("its directory was replaced")
)

// Dir is a directory to write to later: the existing part of its path is open, and Open makes the missing part.
type Dir struct {
	Path string // absolute, without links
	last *os.Root
	from string   // the path of last
	rest []string // missing elements below it
	made *os.Root
}

// FindDir opens the existing part of a directory's path, in which it must be possible to make files. It makes
// nothing.
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

// LastExisting returns the path of the last existing directory on the way to d: d itself, or a parent.
func (d *Dir) LastExisting() string { return d.from }

// Open returns the directory, and makes it at the first call. The result stays open until d is closed.
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

// MakeDir opens a directory, and makes it if it is missing. The caller closes it.
func MakeDir(name string) (*os.Root, error) {
	d, err := FindDir(name)
	if err != nil {
		return nil, err
	}
	defer d.last.Close()
	return d.Open()
}

// OpenBelow opens the directory at the path parts below dir, and makes missing ones with mode 0755. It follows no
// link: one is ErrNotDir. The caller closes the result.
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

// step opens the directory elem in at, and makes it if it is missing.
func step(at *os.Root, elem string) (*os.Root, error) {
	if err := at.Mkdir(elem, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return OpenIn(at, elem)
}

// OpenIn opens the directory elem of at. It follows no link: one is ErrNotDir. The caller closes the result.
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

// openChecked opens the directory elem, whose Lstat is want. OpenRoot follows links that stay in the root, and a
// link can take the directory's place after the Lstat: so the opened directory must be the same one. The "/." makes
// os open elem with O_DIRECTORY: without it, a FIFO in its place blocks for ever.
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
