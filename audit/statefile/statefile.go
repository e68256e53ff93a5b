// Package statefile keeps the files of our state: whole, private, locked, and on the disk before anything depends on
// them.
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

// ErrLocked is the error of [TryLock] where another holds a lock.
var ErrLocked = errors.New("another process has it locked")

// lockPoll is the time between two attempts at a lock: those who hold one need milliseconds.
const lockPoll = 5 * time.Millisecond

// LockFile opens the file path, which it makes where it is missing, with a directory of mode 0700 around it, and locks
// it until it is closed, also by the end of the process. Shared locks exclude no other shared one. The error is
// ErrLocked where another has held the lock for that long, or until ctx ended.
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

// Create makes the file path out of what fill writes and syncs, and its directory, of mode 0700, where that is missing.
// The file is built under another name and then linked into place, whole: of many processes that come first one wins, a
// process that is killed leaves nothing half made at path, and a file that is there already stays. kind is part of the
// other name: see [Tidy].
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

// makeDir makes a directory of mode 0700 that is missing, on the disk, and those above it.
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

// CreateFile makes the file path, of mode 0600, out of data, as Create does.
func CreateFile(path, kind string, data []byte) error {
	return Create(path, kind, func(fresh string) error { return Replace(fresh, kind, data, 0o600) })
}

// Replace puts a file of this mode in the place of path, whole and durable: after a power failure, and wherever it
// fails, the old file or the new one is there. kind is part of the name that the file has before: see [Tidy].
func Replace(path, kind string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix(kind)) // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it has got its name
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

// AbandonedAge is the age from which on a file that is being made is nobody's: Create and Replace take some milliseconds.
const AbandonedAge = time.Minute

// RemoveAbandoned removes the temporary files of a kind that are at least age old: killed processes left them in Create or
// Replace. age may be 0 where a lock keeps others from making any.
func RemoveAbandoned(dir, kind string, age time.Duration) {
	left, _ := filepath.Glob(filepath.Join(dir, tempPrefix(kind)+"*"))
	for _, name := range left {
		if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) >= age {
			os.RemoveAll(name)
		}
	}
}

// SyncDir waits until the names in a directory are on the disk, where a system and a file system can do that.
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

// cannotSync reports whether err says that a file system has no way to sync directories, which is no reason to keep
// nothing there.
func cannotSync(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}

// IsForeign reports whether a file belongs to another user than ours and root, where files have a user.
func IsForeign(info fs.FileInfo) bool {
	uid, ok := Owner(info)
	return HasModes && (!ok || uid != 0 && uid != os.Geteuid())
}

// IsOurs reports whether a file is known to belong to the user that we act for.
func IsOurs(info fs.FileInfo) bool {
	uid, ok := Owner(info)
	return ok && uid == os.Geteuid()
}
