package changes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Proposal is the result of a program's work on a directory.
type Proposal struct {
	ID        string // of the run: letters and digits
	Namespace string
	Session   string
	Dir       string    // of the host, absolute and without links
	Began     time.Time // from the function Began, before the program saw the directory
	Changes   func(context.Context, func(backends.Change) error) error
	Secret    func(io.Reader) (found bool, err error) // searches the content of a file for a leased secret; nil finds none
	Redact    func(string) string                     // removes leased secrets from names; nil removes none
	MaxBytes  int64                                   // of the contents before and after; 0 is DefaultMaxSetBytes
}

// DefaultMaxSetBytes is the default of Proposal.MaxBytes.
const DefaultMaxSetBytes = 2 << 30

// Propose compares a program's view with the host's directory, and stores the difference. If there is none, the set has
// no entries and is not stored.
func (s *Store) Propose(ctx context.Context, p Proposal) (set Set, err error) {
	if !validID(p.ID) || !filepath.IsAbs(p.Dir) {
		return set, fmt.Errorf("propose changes: %q of %q: the id or the directory is not valid", p.ID, p.Dir)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("propose changes of %s: %w", p.Dir, err)
		}
	}()
	s.prune(time.Now())
	host, err := openTree(p.Dir)
	if err != nil {
		return set, err
	}
	defer host.Close()
	temp, unlock, err := statefile.MakeTempDir(ctx, s.c.Dir, fileKind)
	if err != nil {
		return set, err
	}
	defer os.RemoveAll(temp)
	defer unlock()
	if p.MaxBytes <= 0 {
		p.MaxBytes = DefaultMaxSetBytes
	}
	content, err := openPack(filepath.Join(temp, contentName), p.MaxBytes)
	if err != nil {
		return set, err
	}
	defer content.Close()
	applied, err := s.appliedStates(p)
	if err != nil {
		return set, err
	}
	c := comparison{ctx, p, host, content, map[string]*Entry{}, judge{}, applied}
	if err := p.Changes(ctx, c.add); err != nil {
		return set, err
	}
	set = Set{ID: p.ID, Namespace: p.Namespace, Session: p.Session, Dir: p.Dir, Time: time.Now().UTC(), Status: StatusProposed,
		Entries: c.finish()}
	set.Counts = summarize(set.Entries)
	if len(set.Entries) == 0 {
		return set, nil
	}
	h := header{Set: set, Dir: name(set.Dir)}
	h.Entries = nil
	if err := errors.Join(content.finish(), writeJSON(temp, entriesName, set.Entries), writeJSON(temp, headerName, h)); err != nil {
		return set, err
	}
	if err := os.Rename(temp, s.path(p.ID)); err != nil {
		return set, err
	}
	return set, statefile.SyncDir(s.c.Dir)
}

// appliedStates returns the states, by path, that earlier change sets of the proposal's session left on the host.
func (s *Store) appliedStates(p Proposal) (map[string]State, error) {
	if p.Session == "" {
		return nil, nil
	}
	sets, err := s.List(Filter{Namespace: p.Namespace, Session: p.Session, Dir: p.Dir, Status: StatusApplied})
	states := map[string]State{}
	for _, set := range slices.Backward(sets) { // the newest set decides
		full, err := s.Get(set.ID)
		if err != nil {
			return nil, err
		}
		for _, e := range full.Entries {
			if e.Applied {
				states[e.Path] = e.After
			}
		}
	}
	return states, err
}
