package vault

// matcher knows all patterns of a lease. It does not change, and any number of scans may use it.
type matcher struct {
	patterns []pattern
	prefixes prefixes
}

// newMatcher takes over the values. It returns nil if there are none.
func newMatcher(values [][]byte) *matcher {
	if len(values) == 0 {
		return nil
	}
	m := &matcher{}
	for _, v := range values {
		for enc := range encodings {
			m.patterns = append(m.patterns, newPattern(v, enc))
		}
	}
	m.prefixes = newPrefixes(m.patterns)
	return m
}

// wipe clears the values. The matcher must not be used any more.
func (m *matcher) wipe() {
	if m == nil {
		return
	}
	for _, p := range m.patterns {
		clear(p.value)
	}
	clear(m.prefixes.first)
	clear(m.prefixes.digits)
	clear(m.prefixes.filter)
}
