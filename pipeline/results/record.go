package results

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// Record is the stored result of one run, redacted.
type Record struct {
	ID                 string // a ULID
	Namespace, Session string
	Language, Name     string
	backends.End
	Time   time.Time
	Result json.RawMessage // the whole result as returned

	Stdout, Stderr       string // any bytes
	StdoutCut, StderrCut int64  // bytes cut at the end
	Artifacts            []signer.Artifact
}

// Filter selects runs. The zero value selects all.
type Filter struct {
	Namespace, Session string
	Limit              int // maximum number, newest first; 0 is unlimited
}

// smallOutput bounds the stdout and stderr of a run in memory together, in bytes.
const smallOutput = 64 << 10

// Save stores r, and replaces a record with the same id. An error means that r is not stored, and that its artifacts
// are removed, because they can't be requested; usually the disk is full.
func (s *Store) Save(ctx context.Context, r Record) error {
	var err error
	if r.ID, err = parse(r.ID); err != nil {
		return err
	}
	if err = s.startWork(); err != nil {
		return fmt.Errorf("store run %s: %w", r.ID, err)
	}
	if len(r.Stdout)+len(r.Stderr) < smallOutput && r.weight() < maxWeight && !s.isStored(r.ID) {
		s.remember(r)
		return nil
	}
	err = s.write(ctx, r)
	s.mu.Lock()
	s.memory.drop(r.ID)
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("store run %s: %w", r.ID, err)
	}
	s.addBytes(r.size())
	return nil
}

// size returns the approximate size of r on disk.
func (r Record) size() int64 {
	n := blocks(int64(len(r.Stdout))) + blocks(int64(len(r.Stderr))) + blocks(int64(len(r.Result))) + blocks(0)
	for _, a := range r.Artifacts {
		n += blocks(a.Size)
	}
	return n
}

// startWork starts pruning, unless it is running. Processes that only read need none.
func (s *Store) startWork() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if !s.pruning {
		s.pruning = true
		s.done.Go(s.pruneLoop)
	}
	return nil
}

// Get returns a run with its whole output, or ErrUnknown.
func (s *Store) Get(id string) (Record, error) { return s.findRecord(id, s.load) }

// findRecord returns a run from memory, or the result of load.
func (s *Store) findRecord(id string, load func(id string) (Record, error)) (Record, error) {
	id, err := parse(id)
	if err != nil {
		return Record{}, err
	}
	if r, ok := s.recall(id); ok {
		return r, nil
	}
	r, err := load(id)
	if err != nil {
		return Record{}, fmt.Errorf("run %s: %w", id, err)
	}
	return r, nil
}

// Metadata returns a run without result and output, or ErrUnknown.
func (s *Store) Metadata(id string) (Record, error) {
	r, err := s.findRecord(id, func(id string) (Record, error) {
		h, err := s.readMetadata(id)
		return h.record(), err
	})
	r.Result, r.Stdout, r.Stderr = nil, "", ""
	return r, err
}

// List returns the runs that match f, the newest first by the times in their ids. They have no results and output;
// unreadable ones are skipped.
func (s *Store) List(f Filter) []Record {
	small := s.memorized()
	ids := s.onDisk()
	ids = slices.AppendSeq(ids, maps.Keys(small))
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) })
	list := []Record{}
	for _, id := range slices.Compact(ids) {
		if f.Limit > 0 && len(list) == f.Limit {
			break
		}
		r, ok := small[id]
		if !ok {
			h, err := s.readMetadata(id)
			if err != nil {
				continue
			}
			r = h.record()
		}
		if (f.Namespace == "" || f.Namespace == r.Namespace) && (f.Session == "" || f.Session == r.Session) {
			list = append(list, r)
		}
	}
	return list
}
