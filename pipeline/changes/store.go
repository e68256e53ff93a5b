package changes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// lockWait bounds how long a command waits for another command on the same directory.
const lockWait = time.Minute

// Errors that callers match.
var (
	ErrUnknown   = errors.New("unknown change set")
	ErrAmbiguous = errors.New("several change sets have an id that begins so")
)

// header is a set without its entries, as stored on the disk.
type header struct {
	Set
	Dir  name   `json:"dir"`
	Last string `json:"last,omitempty"` // token of the last completed journal
}

func (s *Store) path(id string) string { return filepath.Join(s.c.Dir, id) }

// ids lists the ids of sets, the newest first: an id begins with a time.
func (s *Store) ids() ([]string, error) {
	entries, err := os.ReadDir(s.c.Dir)
	var ids []string
	for _, e := range entries {
		if e.IsDir() && validID(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	slices.Reverse(ids)
	return ids, err
}

func validID(id string) bool {
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) && id != locksName
}

const locksName = "locks"

func (s *Store) readHeader(id string) (h header, err error) {
	b, err := os.ReadFile(filepath.Join(s.path(id), headerName))
	if errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("%w: %s", ErrUnknown, id)
	}
	if err == nil {
		err = json.Unmarshal(b, &h)
	}
	if err != nil {
		return h, fmt.Errorf("read the change set %s: %w", id, err)
	}
	h.Set.Dir = string(h.Dir)
	if _, err := os.Lstat(filepath.Join(s.path(id), journalName)); err == nil {
		h.Status = StatusApplying
	}
	return h, nil
}

func (s *Store) writeHeader(h header) error {
	h.Entries, h.Dir = nil, name(h.Set.Dir)
	return writeJSON(s.path(h.ID), headerName, h)
}

// Filter chooses sets. The zero value chooses all.
type Filter struct {
	Namespace string
	Session   string
	Dir       string // absolute
	Status    string
}

// List returns the sets, newest first, without their entries.
func (s *Store) List(f Filter) ([]Set, error) {
	ids, err := s.ids()
	var sets []Set
	for _, id := range ids {
		h, err := s.readHeader(id)
		if errors.Is(err, ErrUnknown) {
			continue // removed meanwhile
		}
		if err != nil {
			return sets, err
		}
		if (f.Namespace == "" || f.Namespace == h.Namespace) && (f.Session == "" || f.Session == h.Session) &&
			(f.Dir == "" || f.Dir == h.Set.Dir) && (f.Status == "" || f.Status == h.Status) {
			sets = append(sets, h.Set)
		}
	}
	return sets, err
}

// Get returns the set with an id, or the only set whose id has this prefix.
func (s *Store) Get(id string) (Set, error) {
	h, err := s.get(id)
	return h.Set, err
}

// Find is Get without the entries, which may be many.
func (s *Store) Find(id string) (Set, error) {
	h, err := s.find(id)
	return h.Set, err
}

func (s *Store) find(id string) (header, error) {
	ids, err := s.ids()
	if err != nil {
		return header{}, err
	}
	if !slices.Contains(ids, id) {
		ids = slices.DeleteFunc(ids, func(i string) bool { return id == "" || !strings.HasPrefix(i, strings.ToUpper(id)) })
		if len(ids) == 0 {
			return header{}, fmt.Errorf("%w: %s", ErrUnknown, id)
		}
		if len(ids) > 1 {
			return header{}, fmt.Errorf("%w: %s and %s", ErrAmbiguous, ids[0], ids[1])
		}
		id = ids[0]
	}
	return s.readHeader(id)
}

func (s *Store) get(id string) (header, error) {
	h, err := s.find(id)
	if err != nil {
		return h, err
	}
	var record []step
	if err := errors.Join(readJSON(s.path(h.ID), entriesName, &h.Entries), readJSON(s.path(h.ID), recordName, &record)); err != nil {
		return h, fmt.Errorf("read the change set %s: %w", h.ID, err)
	}
	done := map[name]bool{}
	for _, st := range record {
		done[st.Path] = true
	}
	for i := range h.Entries {
		h.Entries[i].Applied = done[name(h.Entries[i].Path)]
	}
	return h, nil
}

// Drop deletes the contents of a set. Its entries stay until the set reaches MaxAge.
func (s *Store) Drop(ctx context.Context, id string) error {
	h, err := s.find(id)
	if err != nil {
		return err
	}
	unlock, err := s.lock(ctx, h.Set.Dir, lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	if h, err = s.find(h.ID); err != nil {
		return err
	}
	if h.Status == StatusApplying {
		return fmt.Errorf("the change set %s is half applied, since %s can't be reached or written to", h.ID, h.Set.Dir)
	}
	h.Status = StatusDropped
	return errors.Join(s.writeHeader(h), removeFile(s.path(h.ID), contentName))
}

// lock locks one directory of the host against all other operations, including those of other processes.
func (s *Store) lock(ctx context.Context, dir string, wait time.Duration) (unlock func(), err error) {
	sum := sha256.Sum256([]byte(dir))
	f, err := statefile.LockFile(ctx, filepath.Join(s.c.Dir, locksName, hex.EncodeToString(sum[:8])), false, wait)
	if err != nil {
		return nil, fmt.Errorf("another command is busy with the changes of %s: %w", dir, err)
	}
	return func() { f.Close() }, nil
}

// prune removes sets that are too old, and the oldest sets while all together are too large. A set that is applied
// halfway stays.
func (s *Store) prune(now time.Time) {
	statefile.RemoveUnlocked(s.c.Dir, fileKind)
	ids, _ := s.ids()
	var total int64
	for _, id := range ids {
		h, err := s.readHeader(id)
		if err != nil || h.Status == StatusApplying {
			continue
		}
		if info, err := os.Stat(filepath.Join(s.path(id), contentName)); err == nil {
			total += info.Size()
		}
		if now.Sub(h.Time) > s.c.MaxAge || total > s.c.MaxBytes {
			if unlock, err := s.lock(context.Background(), h.Set.Dir, time.Millisecond); err == nil {
				_ = os.RemoveAll(s.path(id))
				unlock()
			}
		}
	}
}
