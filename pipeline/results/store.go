// Package results stores what runs left, for a while, so that clients can ask for it afterwards: results, whole output,
// artifacts.
//
// Small runs are kept in memory, and are gone with the process. What is large, or has artifacts, is
// in a directory that several processes may share: what a server put there, the command line can read.
// Nothing is synced to the disk: what a run did is in the audit log, the result store is for convenience.
package results

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// What a zero Config means.
const (
	DefaultMaxBytes = 1 << 30
	DefaultMaxAge   = 24 * time.Hour
)

// ErrUnknown says that there is no such run, or that it was removed.
var ErrUnknown = errors.New("there is no such run any more, or there never was")

var errClosed = errors.New("the result store is closed")

// Config names the store's directory, and bounds what it holds.
type Config struct {
	Dir      string        // made when missing, and closed to other users
	MaxBytes int64         // on disk, in blocks as they are used; 0 is 1 GiB
	MaxAge   time.Duration // since it was put there; 0 is 24 hours
}

// Store holds the results of runs. Its methods may be called concurrently.
type Store struct {
	c       Config
	maxRuns int // runs in memory
	now     func() time.Time

	mu      sync.Mutex
	memory  memory
	closed  bool
	pruning bool  // tend runs
	used    int64 // bytes on disk, as far as is known

	full chan struct{} // has room for one: asks tend to look at the disk now
	stop chan struct{}
	done sync.WaitGroup
}

// Open returns the store in c.Dir, which the caller closes.
func Open(c Config) (*Store, error) {
	c.MaxBytes = cmp.Or(max(c.MaxBytes, 0), DefaultMaxBytes)
	c.MaxAge = cmp.Or(max(c.MaxAge, 0), DefaultMaxAge)
	s := &Store{c: c, maxRuns: maxRuns, now: time.Now, memory: memory{runs: map[string]remembered{}}, full: make(chan struct{}, 1), stop: make(chan struct{})}
	var err error
	if s.c.Dir, err = filepath.Abs(c.Dir); err == nil {
		err = s.makeDir()
	}
	if c.Dir == "" {
		err = errors.New("it has no directory")
	}
	if err != nil {
		return nil, fmt.Errorf("open result store %q: %w", c.Dir, err)
	}
	return s, nil
}

// makeDir makes the store's directory, also when somebody removed it since. Artifacts in it have the
// permissions that programs gave them, so the directory itself keeps others out.
func (s *Store) makeDir() error {
	if err := os.MkdirAll(s.c.Dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(s.c.Dir)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(s.c.Dir, 0o700)
	}
	return err
}

// Close stops pruning. Runs in memory are gone, those on disk stay. It is safe to call more
// than once.
func (s *Store) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.memory = memory{}
		close(s.stop)
	}
	s.mu.Unlock()
	s.done.Wait()
	return nil
}

// OpenArtifacts makes and opens the directory in which the artifacts of a run are to be saved before the run is stored.
// The caller closes it.
func (s *Store) OpenArtifacts(id string) (*os.Root, error) {
	dir := s.ArtifactDir(id)
	if dir == "" {
		return nil, fmt.Errorf("%.40q is not a run's id", id)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// ArtifactDir returns where the artifacts of a run are. It makes nothing, and returns "" for what is no ULID.
func (s *Store) ArtifactDir(id string) string {
	id, err := parse(id)
	if err != nil {
		return ""
	}
	return filepath.Join(s.c.Dir, id, filesName)
}

// parse returns the one way in which we write an id. A ULID has nothing in it that means something
// in a path.
func parse(id string) (string, error) {
	u, err := ulid.ParseStrict(id)
	if err != nil {
		return "", fmt.Errorf("%.40q is not a run's id: %w", id, ErrUnknown)
	}
	return u.String(), nil
}
