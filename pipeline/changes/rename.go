package changes

import (
	"errors"
	"io/fs"
	"os"
	"path"
)

var errReplaced = errors.New("was replaced meanwhile")

// place is a name in an open directory.
type place struct {
	dir  *os.Root
	base string
	full string // the name in the tree
}

func (t *tree) place(name string) (place, error) {
	dir, base, err := t.parent(name)
	return place{dir, base, name}, err
}

func placeIn(dir *os.Root, dirName, base string) place {
	return place{dir, base, path.Join(dirName, base)}
}

// exchange gives two files each other's names. If the file system has no such call, the file at to has the name spare
// for a moment.
func (t *tree) exchange(from, to, spare place) error {
	if !t.plain {
		if err := exchangeNames(from, to); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	if err := t.move(to, spare); err != nil {
		return err
	}
	err := t.at("exchange")
	if err == nil {
		err = t.move(from, to)
	}
	if err != nil {
		return errors.Join(err, t.move(spare, to))
	}
	if err := t.at("exchanged"); err != nil {
		return errors.Join(err, t.move(to, from), t.move(spare, to))
	}
	return t.move(spare, from)
}

// move renames a file to a free name. The error is fs.ErrExist if the name is in use.
func (t *tree) move(from, to place) error {
	if !t.plain {
		if err := renameNew(from, to); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	if _, err := to.dir.Lstat(to.base); err == nil {
		return &fs.PathError{Op: "rename", Path: to.full, Err: fs.ErrExist}
	}
	return t.rename(from, to)
}
