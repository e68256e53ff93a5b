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

// Overwrite replaces the single occurrence of old in the file path by fresh, of the same length, and syncs it. That
// needs no space on file systems that write in place; those that copy on write (btrfs, ZFS) may need some.
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
		return fmt.Errorf("%q does not have the bytes to overwrite", path)
	}
	if _, err := f.WriteAt(fresh, int64(bytes.Index(content, old))); err != nil {
		return err
	}
	return f.Sync()
}

// Free returns the free bytes of a directory's file system, or -1 if unknown.
func Free(dir string) int64 {
	free, total := Space(dir)
	if total == 0 {
		return -1
	}
	return free
}

// spareFile reserves the space of one file in a directory for a write on a full disk.
const (
	spareFile = ".spare"
	spareSize = 16 << 10
)

// ReserveSpace reserves space in a directory for one call of ReplaceSpare.
func ReserveSpace(dir string) error {
	path := filepath.Join(dir, spareFile)
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return Replace(path, "spare", make([]byte, spareSize), 0o600)
}

// ReplaceWithReserved is Replace for a small file of mode 0600. On a full disk it uses the space of ReserveSpace.
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
