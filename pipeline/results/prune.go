package results

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/signer"
)

const (
	// reading is the time after reading a part during which a run counts as being read: a reader of large content
	// returns repeatedly.
	reading = time.Minute
	// longest bounds the time beyond MaxAge that a run stays because it is being read.
	longest = time.Hour
	// abandoned is the age at which an unfinished directory will not be finished any more: artifacts are saved within
	// seconds before the run is stored.
	abandoned = time.Hour

	gonePrefix = ".gone-"
	block      = 4096 // bytes
)

// run is the directory of one run.
type run struct {
	id      string
	put     time.Time // zero: unfinished
	read    time.Time // last read, if after put
	touched time.Time // newest mtime in it
	size    int64
}

// pruneLoop prunes the directory until the store is closed.
func (s *Store) pruneLoop() {
	tick := time.NewTicker(min(10*time.Minute, max(time.Second, s.c.MaxAge/4)))
	defer tick.Stop()
	for {
		s.prune()
		select {
		case <-s.stop:
			return
		case <-s.full:
		case <-tick.C:
		}
	}
}

// addBytes counts bytes on disk, and requests pruning if there are too many. Bytes of other processes are counted at
// the next tick.
func (s *Store) addBytes(size int64) {
	s.mu.Lock()
	s.used += size
	full := s.used > s.c.MaxBytes
	s.mu.Unlock()
	if !full {
		return
	}
	select {
	case s.full <- struct{}{}:
	default: // pruning is requested already
	}
}

// prune removes expired runs and then, if there are too many bytes, the oldest runs until a tenth of the room is
// free. Other processes may do the same concurrently.
func (s *Store) prune() {
	dir, err := os.OpenRoot(s.c.Dir)
	if err != nil {
		return
	}
	defer dir.Close()
	s.mu.Lock()
	s.used = 0 // later additions may be counted twice, but not missed
	s.mu.Unlock()
	var used int64
	runs := s.scan(dir)
	for _, r := range runs {
		used += r.size
	}
	enough := s.c.MaxBytes
	if used > enough {
		enough -= enough / 10
	}
	for _, r := range runs {
		select {
		case <-s.stop:
			return
		default:
		}
		if (s.isExpired(r) || used > enough && !r.put.IsZero() && !s.isBeingRead(r)) && remove(dir, r.id) == nil {
			used -= r.size
		}
	}
	s.mu.Lock()
	meanwhile := s.used
	s.used = used
	s.mu.Unlock()
	if meanwhile > 0 {
		s.addBytes(meanwhile)
	}
}

// isExpired reports whether a run must be removed because of its age.
func (s *Store) isExpired(r run) bool {
	if r.put.IsZero() {
		return s.now().Sub(r.touched) > abandoned
	}
	age := s.now().Sub(r.put)
	return age > s.c.MaxAge && (age > s.c.MaxAge+longest || !s.isBeingRead(r))
}

func (s *Store) isBeingRead(r run) bool {
	return r.read.After(r.put) && s.now().Sub(r.read) < reading
}

// scan returns the runs on disk, the oldest first, and finishes removals that were cut short.
func (s *Store) scan(dir *os.Root) []run {
	var runs []run
	entries, _ := fs.ReadDir(dir.FS(), ".")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), gonePrefix) {
			_ = dir.RemoveAll(e.Name())
		}
	}
	for _, id := range s.onDisk() {
		runs = append(runs, measure(s.c.Dir, id))
	}
	slices.SortFunc(runs, func(a, b run) int { return cmp.Or(a.put.Compare(b.put), strings.Compare(a.id, b.id)) })
	return runs
}

// measure measures a run's directory. Files that vanish meanwhile are being removed by another process.
func measure(dir, id string) run {
	r := run{id: id}
	dir = filepath.Join(dir, id)
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		r.size += blocks(info.Size())
		if info.ModTime().After(r.touched) {
			r.touched = info.ModTime()
		}
		switch path {
		case filepath.Join(dir, metadataName):
			r.put = info.ModTime()
		case filepath.Join(dir, resultName):
			r.read = info.ModTime()
		}
		return nil
	})
	return r
}

// blocks returns the approximate disk space of a file, with its entry in a directory.
func blocks(size int64) int64 { return (size+block-1)/block*block + block }

// remove renames a run's directory and then removes it, so that nobody finds half of it.
func remove(dir *os.Root, id string) error {
	name := gonePrefix + rand.Text()
	if err := dir.Rename(id, name); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return signer.WithoutPaths(err)
	}
	return signer.WithoutPaths(dir.RemoveAll(name))
}
