package vault

import "sync"

// matcher has the patterns of a lease. After prepare it does not change, and any number of scans may use it.
type matcher struct {
	once     sync.Once
	values   [][]byte
	keys     [][]byte // PEM keys without line breaks; see joined
	patterns []patterns
	prefixes prefixes
	folds    uint16 // a bit for each of the patterns whose prefixes are listed without line breaks
}

// newMatcher takes ownership of the values, and of keys that are matched as text only. It returns nil if there are
// none.
func newMatcher(values, keys [][]byte) *matcher {
	if len(values) == 0 {
		return nil
	}
	return &matcher{values: values, keys: keys}
}

// prepare compiles the patterns. It takes a third of a millisecond a value, so it waits for the first byte of text: a
// program that prints nothing does not pay.
func (m *matcher) prepare() {
	m.once.Do(func() {
		forms := formsOf(m.values)
		for _, k := range m.keys {
			forms.add(k, asText)
		}
		for w, words := range forms {
			if len(words) == 0 {
				continue
			}
			switch encoding(w) {
			case asText, asCaseless, asHex, asBinary, asBase64, asBase32, asBase32Hex:
				m.folds |= 1 << len(m.patterns)
			}
			m.patterns = append(m.patterns, newPatterns(encoding(w), words))
		}
		m.prefixes = newPrefixes(m)
	})
}

// root returns the initial thread of a group of patterns at a position of the text.
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
	clear(m.prefixes.entries)
	if m.prefixes.first != nil {
		m.prefixes.first.wipe()
		m.prefixes.second.wipe()
		m.prefixes.first, m.prefixes.second = nil, nil
	}
}
