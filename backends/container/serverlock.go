package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// serverLock proves that a server is alive: a locked file, which the kernel unlocks when the server ends in any
// way. Containers have its name as a label.
type serverLock struct {
	name    string // a ULID
	stateID string // value of LabelState
	locks   string // directory of the locks
	runs    string // directory for the run directories of all servers with this state
	file    *os.File

	dirs atomic.Int64 // number of run directories made: each name is used once
}

const lockSuffix = ".lock"

func locksDir(stateDir string) string { return filepath.Join(stateDir, "instances") }

func newServerLock(stateDir string) (*serverLock, error) {
	if !filepath.IsAbs(stateDir) {
		return nil, fmt.Errorf("%q is not an absolute path", stateDir)
	}
	i := &serverLock{locks: locksDir(stateDir)}
	if err := os.MkdirAll(i.locks, 0o700); err != nil {
		return nil, err
	}
	var err error
	if i.stateID, err = stateID(stateDir); err != nil {
		return nil, err
	}
	dirs, err := RunDirs(stateDir)
	if err != nil {
		return nil, err
	}
	i.runs = dirs[0]
	for range 50 { // other servers may look for dead ones at the same time
		if err = i.lock(); err == nil {
			return i, nil
		}
	}
	return nil, err
}

// lock creates the file and locks it. A server that looks for dead ones at that moment may be faster and remove it:
// no container has its name yet.
func (i *serverLock) lock() (err error) {
	i.name = ulid.Make().String()
	if i.file, err = os.OpenFile(i.path(i.name), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); err != nil {
		return err
	}
	err = statefile.TryLock(i.file, false)
	switch {
	case err == nil:
		err = checkNotRemoved(i.file)
	case errors.Is(err, statefile.ErrLocked):
		err = errors.New("another server has the lock " + i.file.Name())
	}
	if err != nil {
		i.file.Close()
	}
	return err
}

func checkNotRemoved(f *os.File) error {
	ours, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(f.Name())
	if err == nil && !os.SameFile(ours, there) {
		err = fs.ErrNotExist
	}
	return err
}

func (i *serverLock) path(name string) string { return filepath.Join(i.locks, name+lockSuffix) }

// alive reports whether the server of a name holds its lock. A server counts as alive unless it is surely dead.
func (i *serverLock) alive(name string) bool {
	if name == i.name {
		return true
	}
	f, err := os.OpenFile(i.path(name), os.O_RDWR, 0)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	return statefile.TryLock(f, false) != nil
}

// removeDead removes the lock files of dead servers whose containers are gone.
func (i *serverLock) removeDead() {
	for _, name := range lockNames(i.locks, lockSuffix) {
		if name == i.name {
			continue
		}
		f, err := os.OpenFile(i.path(name), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if statefile.TryLock(f, false) == nil {
			os.Remove(f.Name()) // while it is locked, so that nobody can acquire it
		}
		f.Close()
	}
}

// close releases and removes the lock.
func (i *serverLock) close() {
	os.Remove(filepath.Join(i.runs, i.name))
	os.Remove(i.runs) // if it is empty
	os.Remove(i.file.Name())
	i.file.Close()
}

// lockNames lists the entries of a directory that are a server's name plus suffix, without it.
func lockNames(dir, suffix string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if _, err := ulid.ParseStrict(name); ok && err == nil {
			names = append(names, name)
		}
	}
	return names
}

// stateID distinguishes the state directories of all machines: an engine may serve servers that can't see each
// other's locks.
func stateID(stateDir string) (string, error) {
	info, err := os.Stat(stateDir)
	if err != nil {
		return "", err
	}
	machine, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		name, _ := os.Hostname()
		machine = []byte(name)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s", machine, directoryID(stateDir, info)))
	return hex.EncodeToString(sum[:8]), nil
}

// sweep removes the remains of killed servers: containers that were never started, or whose engine was down when
// they ended, and run directories. It judges only servers with locks in our own state directory, and only by their
// locks, never by age.
func (b *Backend) sweep(ctx context.Context, s *engineState) {
	left, err := b.engine.List(ctx, LabelState+"="+s.instance.stateID)
	if err != nil {
		return // the next server tries again
	}
	clean := true
	for _, c := range left {
		name := c.Labels[LabelInstance]
		if _, err := ulid.ParseStrict(name); err != nil || c.Labels[LabelState] != s.instance.stateID || s.instance.alive(name) {
			continue
		}
		if b.engine.Remove(ctx, c.ID) != nil {
			clean = false
		}
	}
	s.instance.removeRuns()
	if clean {
		s.instance.removeDead()
	}
}
