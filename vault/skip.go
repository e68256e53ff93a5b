package vault

import "slices"

// byteClass is the meaning of a byte in each view.
type byteClass struct {
	plain, letter byte // its symbols; 0 for none
	special       bool // it may start an escape, or have no width
}

var byteClasses = func() (t [256]byteClass) {
	for i := range t {
		b, k := byte(i), &t[i]
		k.plain = b
		switch {
		case 'A' <= b && b <= 'Z':
			k.letter = b + 'a' - 'A'
		case isWord(b) && b != '_' || b >= 0x80:
			k.letter = b
			k.special = b == 0xc2 || b == 0xe2 || b == 0xef
		case b == '+' || b == '\t': // a URL has + for a blank
			k.plain = ' '
		case b == '=' || b < ' ': // quoted-printable breaks lines after =; control characters have escapes
			k.plain = 0
		case b == '\\' || b == '%' || b == '&':
			k.special = true
		}
	}
	return t
}()

// letterCodes maps each byte to its letter, the number of bits of the letter, and specialBit.
var letterCodes = func() (t [256]uint16) {
	for b, k := range byteClasses {
		if k.letter != 0 {
			t[b] = 8<<8 | uint16(k.letter)
		}
		if k.special {
			t[b] |= specialBit
		}
	}
	return t
}()

const specialBit = 1 << 15 // the byte is special

// shiftLetter returns the last eight letters after a byte.
func shiftLetter(last uint64, code uint16) uint64 { return last<<(code>>8&63) | uint64(code&0xff) }

// indexWords makes skip stop after the first letters of the words of the other views.
func (m *matcher) indexWords() {
	for _, w := range m.all.words {
		m.addLetters(w.symbols)
	}
	for _, w := range m.raw.words {
		special := slices.IndexFunc(w.symbols, func(b byte) bool { return byteClasses[b].special })
		if special < 0 {
			special = len(w.symbols)
		}
		if special >= window { // otherwise inspectSpecial stops there
			m.addLetters(w.symbols[:special])
		}
	}
}

// addLetters adds the first letters of a word of another view.
func (m *matcher) addLetters(symbols []byte) {
	var begin []byte
	for _, b := range symbols[:min(len(symbols), maxBegin)] {
		if k := &byteClasses[b]; k.letter != 0 {
			begin = append(begin, k.letter)
		}
		if len(begin) == window {
			m.letters.addTrieNode(begin, trieNode{})
			return
		}
	}
	m.hasFewLetters = true
}

const (
	maxBegin      = 32                // symbols with the first letters of a word
	maxBeginBytes = maxBegin * maxGap // bytes of text that they may span
	maxSkip       = 16 << 10          // bytes, so that s.escapes stays small
)

// skip skips text from index i on, at base+i in the whole text, in which no word starts. It stops far enough before a
// word, or the end, to leave the first symbols of a word unread. The result is the same as with readChar, in less time.
func (s *scan) skip(e escaped, i int, base int64) int {
	if s.hasFewLetters || i < window-1 {
		return i
	}
	begin, text, last := i, e.text[:min(len(e.text), i+maxSkip)], s.letters.last
	s.escapes = s.escapes[:0]
	for {
		if i, last = s.letters.skipOrdinary(text, i, last); i >= len(text) {
			return s.rewind(text, begin, i, base)
		}
		size, after := 1, shiftLetter(last, letterCodes[text[i]])
		if byteClasses[text[i]].special {
			size, after = s.inspectSpecial(e, i, last)
		} else if s.letters.hasPrefix(after) {
			size = 0
		}
		if size == 0 {
			return s.rewind(text, begin, i, base)
		}
		i, last = i+size, after
	}
}

// skipOrdinary skips bytes up to a group of three with a special byte, or with the last byte of a word's first letters.
// Each window that ends in the group has the four letters before its last two.
func (d *dictionary) skipOrdinary(text []byte, i int, last uint64) (int, uint64) {
	filter := d.filter
	for ; i+3 <= len(text); i += 3 {
		t := text[i : i+3 : i+3]
		x, y, z := letterCodes[t[0]], letterCodes[t[1]], letterCodes[t[2]]
		if (x|y|z)&specialBit != 0 {
			break
		}
		after := shiftLetter(shiftLetter(shiftLetter(last, x), y), z)
		if filter.has(uint32(after>>(8*(window-gramSize)))) && (d.hasPrefix(after) || d.hasPrefix(after>>8) || d.hasPrefix(after>>16)) {
			break
		}
		last = after
	}
	return i, last
}

// inspectSpecial reads a special character. It returns its size, or 0 if a word may start beside or within it, or if
// more text is needed.
func (s *scan) inspectSpecial(e escaped, i int, last uint64) (size int, after uint64) {
	c, n := e.decode(i, maxLevels)
	if n == 0 || i+n+window > len(e.text) {
		return 0, last
	}
	raw := packSymbols(e.text[i-window+1 : i])
	for _, b := range e.text[i : i+n+window-1] {
		if raw = raw<<8 | uint64(b); s.raw.hasPrefix(raw) {
			return 0, last
		}
	}
	var room [4]byte
	for _, b := range c.appendTo(room[:0]) {
		if last = shiftLetter(last, letterCodes[b]); s.letters.hasPrefix(last) {
			return 0, last
		}
	}
	s.escapes = append(s.escapes, span{int64(i), int64(i + n)})
	return n, last
}

// rewind returns the index from which to read the text before index i again, so that a word's first symbols are seen.
// Text was skipped from begin on. The result is not after a backslash or indent.
func (s *scan) rewind(text []byte, begin, i int, base int64) int {
	s.readUntil = base + int64(i) + 1
	least := i - maxBeginBytes
	for letters := 0; i > begin && (i > least && letters < window || dependsOnPrevious(text[i-1])); {
		if n := len(s.escapes); n > 0 && int(s.escapes[n-1].to) == i {
			i, s.escapes = int(s.escapes[n-1].from), s.escapes[:n-1]
			continue
		}
		if i--; byteClasses[text[i]].letter != 0 {
			letters++
		}
	}
	if i > begin {
		for _, v := range s.views() {
			v.count = 0
		}
		s.listClosed, s.inLine = false, true
	}
	return i
}

// dependsOnPrevious reports whether the meaning of the byte after b depends on b.
func dependsOnPrevious(b byte) bool {
	return b == '\\' || b == ' ' || b == '\t' || b == '\n' || b == '\r'
}
