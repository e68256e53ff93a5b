package results

import (
	"slices"
	"time"
)

// Bounds of the memory. A result can contain images, which are not part of the output.
const (
	maxRuns   = 1000
	maxWeight = 256 << 10 // bytes of one run
	maxMemory = 64 << 20  // bytes of all of them
)

// memory holds small runs, the oldest first.
type memory struct {
	runs   map[string]remembered
	order  []string
	weight int
}

type remembered struct {
	Record
	since time.Time
}

func (r Record) weight() int {
	n := 512 + len(r.Stdout) + len(r.Stderr) + len(r.Result) + len(r.Name)
	for _, a := range r.Artifacts {
		n += 256 + len(a.Name) + len(a.Withheld)
	}
	return n
}

// remember stores a small run, and drops the oldest ones to make room.
func (s *Store) remember(r Record) {
	r.Result, r.Artifacts = slices.Clone(r.Result), slices.Clone(r.Artifacts)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	m := &s.memory
	m.drop(r.ID)
	m.runs[r.ID] = remembered{r, s.now()}
	m.order = append(m.order, r.ID)
	m.weight += r.weight()
	for len(m.order) > s.maxRuns || m.weight > maxMemory {
		m.drop(m.order[0])
	}
	s.expire()
}

// expire drops expired runs.
func (s *Store) expire() {
	m := &s.memory
	for len(m.order) > 0 && s.now().Sub(m.runs[m.order[0]].since) > s.c.MaxAge {
		m.drop(m.order[0])
	}
}

func (m *memory) drop(id string) {
	r, ok := m.runs[id]
	if !ok {
		return
	}
	m.weight -= r.weight()
	delete(m.runs, id)
	i := slices.Index(m.order, id) // almost always 0
	m.order = slices.Delete(m.order, i, i+1)
}

// recall returns a run from memory.
func (s *Store) recall(id string) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	r, ok := s.memory.runs[id]
	return r.copied(), ok
}

// memorized returns all runs in memory, without their output.
func (s *Store) memorized() map[string]Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	all := make(map[string]Record, len(s.memory.runs))
	for id, r := range s.memory.runs {
		r.Result = nil
		c := r.copied()
		c.Stdout, c.Stderr = "", ""
		all[id] = c
	}
	return all
}

// copied returns a copy that its owner may modify.
func (r remembered) copied() Record {
	r.Result, r.Artifacts = slices.Clone(r.Result), slices.Clone(r.Artifacts)
	return r.Record
}
