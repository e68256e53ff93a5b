package vault

// matcher knows all that a lease looks for. It does not change, and any number of scans may use it.
type matcher struct {
	patterns []patterns
	prefixes prefixes
}

// newMatcher takes over the values. It returns nil if there are none.
func newMatcher(values [][]byte) *matcher {
	if len(values) == 0 {
		return nil
	}
	m := &matcher{patterns: make([]patterns, 0, ways)}
	for w, words := range formsOf(values) {
		if len(words) > 0 {
			m.patterns = append(m.patterns, newPatterns(way(w), words))
		}
	}
	m.prefixes = newPrefixes(m)
	return m
}

// root returns the thread of a group of patterns that begins at a position of the text.
func (m *matcher) root(group int, from int64) thread {
	return thread{from: from, group: uint8(group), point: point{hi: int32(len(m.patterns[group].words))}}
}

// wipe clears the values. The matcher must not be used any more.
func (m *matcher) wipe() {
	if m == nil {
		return
	}
	for _, p := range m.patterns {
		for _, w := range p.words {
			clear(w)
		}
		clear(p.ends)
	}
	clear(m.prefixes.keys)
	clear(m.prefixes.filter)
}
