package statefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Overwrite writes fresh in the one place in which the file path has old, which is as long, and puts it on the disk.
// That needs no space where file systems write in place, as most do; those that copy on write (btrfs, ZFS) may need
// some.
func Overwrite(path string, old, fresh []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	if len(old) != len(fresh) || bytes.Count(content, old) != 1 {
		return fmt.Errorf("%q has not what is to be overwritten", path)
	}
	if _, err := f.WriteAt(fresh, int64(bytes.Index(content, old))); err != nil {
		return err
	}
	return f.Sync()
}

// Free returns how many bytes of a directory's file system are free, -1 where that is not known.
func Free(dir string) int64 {
	free, total := Space(dir)
	if total == 0 {
		return -1
	}
	return free
}

// spareFile is a file of a directory that has space for one file that is needed on a full disk.
const (
	spareFile = ".spare"
	spareSize = 16 << 10
)

// ReserveSpace takes space in a directory for one call of ReplaceSpare.
func ReserveSpace(dir string) error {
	path := filepath.Join(dir, spareFile)
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return Replace(path, "spare", make([]byte, spareSize), 0o600)
}

// ReplaceWithReserved is Replace for a small file of mode 0600 that is needed also on a full disk: then it is written in the
// place of what Spare took.
func ReplaceWithReserved(path, kind string, data []byte) error {
	err := Replace(path, kind, data, 0o600)
	if err == nil || len(data) > spareSize {
		return err
	}
	spare := filepath.Join(filepath.Dir(path), spareFile)
	f, openErr := os.OpenFile(spare, os.O_RDWR, 0)
	if errors.Is(openErr, fs.ErrNotExist) {
		return err
	}
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	_, failed := f.WriteAt(data, 0)
	if failed == nil {
		failed = f.Truncate(int64(len(data)))
	}
	if failed = errors.Join(failed, f.Sync(), f.Close()); failed != nil {
		return errors.Join(err, failed)
	}
	if failed = os.Rename(spare, path); failed != nil {
		return errors.Join(err, failed)
	}
	return SyncDir(filepath.Dir(path))
}
