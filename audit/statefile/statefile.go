// Package statefile writes state files: atomically, privately, locked, and synced before anything depends on them.
package statefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// ErrLocked is the error of [TryLock] if another process has a lock.
var ErrLocked = errors.New("another process has it locked")

// lockPoll is the time between two attempts at a lock: holders need milliseconds.
const lockPoll = 5 * time.Millisecond

// LockFile opens the file path, which it creates if necessary, in a directory of mode 0700, and locks it until it is
// closed or the process ends. Shared locks don't exclude each other. The error is ErrLocked if the lock was not free
// within wait, or until ctx ended.
func LockFile(ctx context.Context, path string, shared bool, wait time.Duration) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|NoLink, 0o600)
	if err != nil {
		return nil, err
	}
	return waitForLock(ctx, f, shared, wait)
}

// LockDir opens and locks a directory, as LockFile does a file. On Windows that is not possible.
func LockDir(ctx context.Context, dir string, wait time.Duration) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	return waitForLock(ctx, f, false, wait)
}

// waitForLock returns f with its lock, or closes it.
func waitForLock(ctx context.Context, f *os.File, shared bool, wait time.Duration) (*os.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("waited %v", wait))
	defer cancel()
	again := time.NewTicker(lockPoll)
	defer again.Stop()
	err := TryLock(f, shared)
	for errors.Is(err, ErrLocked) {
		select {
		case <-again.C:
			err = TryLock(f, shared)
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock %q: %w (%w)", f.Name(), err, context.Cause(ctx))
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %q: %w", f.Name(), err)
	}
	return f, nil
}

// Create creates the file path with the content that fill writes and syncs, and its directory, of mode 0700, if
// necessary. The file is built under a temporary name and linked into place: of several processes one wins, a killed
// process leaves no partial file, and an existing file stays. kind is part of the temporary name: see [Tidy].
func Create(path, kind string, fill func(fresh string) error) error {
	dir := filepath.Dir(path)
	if err := makeDir(dir); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(dir, tempPrefix(kind)) // 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	fresh := filepath.Join(temp, "new")
	if err := fill(fresh); err != nil {
		return err
	}
	if err := os.Link(fresh, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(dir)
}

// makeDir creates and syncs a missing directory of mode 0700, and its missing parents.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(parent)
}

// CreateFile creates the file path, of mode 0600, with data, as Create does.
func CreateFile(path, kind string, data []byte) error {
	return Create(path, kind, func(fresh string) error { return Replace(fresh, kind, data, 0o600) })
}

// Replace replaces the file path by one of this mode, atomically and durably: after a power failure or an error, the
// old or the new file exists. kind is part of the temporary name: see [Tidy].
func Replace(path, kind string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix(kind)) // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it was renamed
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func tempPrefix(kind string) string { return ".new-" + kind + "-" }

// AbandonedAge is the age from which a temporary file is a leftover: Create and Replace take some milliseconds.
const AbandonedAge = time.Minute

// RemoveAbandoned removes the temporary files of a kind that are at least age old, which killed processes left in
// Create or Replace. age may be 0 if a lock keeps others from creating any.
func RemoveAbandoned(dir, kind string, age time.Duration) {
	left, _ := filepath.Glob(filepath.Join(dir, tempPrefix(kind)+"*"))
	for _, name := range left {
		if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) >= age {
			os.RemoveAll(name)
		}
	}
}

// SyncDir syncs the names in a directory, if the system and the file system can.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cannotSync(err) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// cannotSync reports whether err says that a file system can't sync directories, which is tolerated.
func cannotSync(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}

// IsForeign reports whether a file belongs to another user than this process's and root.
func IsForeign(info fs.FileInfo) bool {
	uid, ok := Owner(info)
	return HasModes && (!ok || uid != 0 && uid != os.Geteuid())
}

// IsOurs reports whether a file is known to belong to this process's user.
func IsOurs(info fs.FileInfo) bool {
	uid, ok := Owner(info)
	return ok && uid == os.Geteuid()
}
