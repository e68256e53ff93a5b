// Package results stores the results, whole output and artifacts of runs for a while, so that clients can request
// them later.
//
// Small runs are stored in memory, and are lost with the process. Large ones, and those with artifacts, are in a
// directory that several processes may share: the command line can read a server's runs. Nothing is synced to the
// disk: the audit log is the record of runs, the result store is a convenience.
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

// Values of a zero Config.
const (
	DefaultMaxBytes = 1 << 30
	DefaultMaxAge   = 24 * time.Hour
)

// ErrUnknown means that a run does not exist, or was removed.
var ErrUnknown = errors.New("unknown run, or its result was removed")

var errClosed = errors.New("the result store is closed")

// Config has the store's directory and bounds.
type Config struct {
	Dir      string        // created if missing, and closed to other users
	MaxBytes int64         // on disk, in used blocks; 0 is 1 GiB
	MaxAge   time.Duration // since it was stored; 0 is 24 hours
}

// Store holds the results of runs. Its methods may be called concurrently.
type Store struct {
	c       Config
	maxRuns int // runs in memory
	now     func() time.Time

	mu      sync.Mutex
	memory  memory
	closed  bool
	pruning bool  // pruneLoop runs
	used    int64 // bytes on disk, approximate

	full chan struct{} // requests pruning now; buffered
	stop chan struct{}
	done sync.WaitGroup
}

// Open returns the store in c.Dir, which the caller closes.
func Open(c Config) (*Store, error) {
	c.MaxBytes = cmp.Or(max(c.MaxBytes, 0), DefaultMaxBytes)
	c.MaxAge = cmp.Or(max(c.MaxAge, 0), DefaultMaxAge)
	s := &Store{c: c, maxRuns: maxRuns, now: time.Now, memory: memory{runs: map[string]remembered{}}, full: make(chan struct{}, 1),
		stop: make(chan struct{})}
	var err error
	if s.c.Dir, err = filepath.Abs(c.Dir); err == nil {
		err = s.makeDir()
	}
	if c.Dir == "" {
		err = errors.New("no directory is configured")
	}
	if err != nil {
		return nil, fmt.Errorf("open result store %q: %w", c.Dir, err)
	}
	return s, nil
}

// makeDir creates the store's directory, even if it was removed since Open. Artifacts in it have the permissions that
// programs chose, so the directory itself keeps others out.
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

// Close stops pruning. Runs in memory are lost, those on disk stay. It is safe to call more than once.
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

// OpenArtifacts creates and opens the directory for the artifacts of a run that is stored later. The caller closes
// it.
func (s *Store) OpenArtifacts(id string) (*os.Root, error) {
	dir := s.ArtifactDir(id)
	if dir == "" {
		return nil, fmt.Errorf("%.40q is not a run id", id)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// ArtifactDir returns the directory of a run's artifacts, without creating it, and "" for an invalid id.
func (s *Store) ArtifactDir(id string) string {
	id, err := parse(id)
	if err != nil {
		return ""
	}
	return filepath.Join(s.c.Dir, id, filesName)
}

// parse returns the canonical form of an id. A ULID contains nothing special in a path.
func parse(id string) (string, error) {
	u, err := ulid.ParseStrict(id)
	if err != nil {
		return "", fmt.Errorf("%.40q is not a run id: %w", id, ErrUnknown)
	}
	return u.String(), nil
}
