//go:build !linux

package changes

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

func exchangeNames(a, b place) error { return errors.ErrUnsupported }

func renameNew(from, to place) error { return errors.ErrUnsupported }

func (t *tree) rename(from, to place) error { return t.top.Rename(from.full, to.full) }

// chmod sets the permission bits of the file that info describes.
func chmod(p place, info fs.FileInfo, mode uint32) error {
	now, err := p.dir.Lstat(p.base)
	if err == nil && !os.SameFile(info, now) {
		err = errReplaced
	}
	if err != nil {
		return err
	}
	return p.dir.Chmod(p.base, fs.FileMode(mode))
}

// syncAll does nothing: each staged file is already synced.
func (t *tree) syncAll() error { return nil }

func syncStaged(f *os.File) error { return f.Sync() }

// changeTime returns the time of the last write: not every system has the time of other changes.
func changeTime(info fs.FileInfo) time.Time { return info.ModTime() }

func mountOf(*os.Root) (string, error) { return "", nil }

func inherit(*os.Root, string, fs.FileInfo, fs.FileInfo) {}
