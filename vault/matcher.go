package vault

import "sync"

// matcher has the words of a lease. After prepare it does not change, and any number of scans may use it.
type matcher struct {
	once              sync.Once
	values, keys      [][]byte    // keys: the edges of PEM keys; see edges
	all, letters, raw *dictionary // of the words of each view of a scan
	hasFewLetters     bool        // a word has few letters near its start: no text is skipped
}

// newMatcher takes ownership of the values, and of keys that are matched as text only. It returns nil if there are
// none.
func newMatcher(values, keys [][]byte) *matcher {
	if len(values) == 0 {
		return nil
	}
	return &matcher{values: values, keys: keys}
}

// prepare builds the dictionaries. It is called at the first byte of text, so that a program that prints nothing costs
// nothing.
func (m *matcher) prepare() {
	m.once.Do(func() {
		f := newForms(m.values, m.keys)
		m.all, m.letters, m.raw = newDictionary(f.all), newDictionary(f.letters), newDictionary(f.raw)
		m.indexWords()
	})
}

// wipe clears the encodings. The matcher must not be used any more.
func (m *matcher) wipe() {
	if m == nil {
		return
	}
	for _, d := range []*dictionary{m.all, m.letters, m.raw} {
		if d != nil {
			d.wipe()
		}
	}
}
