package vault

import "slices"

// byteClass says what a byte of text is in each view.
type byteClass struct {
	plain, letter byte // its symbols; 0: it has none
	special       bool // it may begin what spells a character, or have no width
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
		case b == '=' || b < ' ': // mail breaks lines behind one; what control characters do in text, escapes spell in many ways
			k.plain = 0
		case b == '\\' || b == '%' || b == '&':
			k.special = true
		}
	}
	return t
}()

// letterCodes has of each byte its letter, above it the number of bits of that, and slow.
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

// indexWords makes skip stop at the words of the other views, where their first letters end.
func (m *matcher) indexWords() {
	for _, w := range m.all.words {
		m.addLetters(w.symbols)
	}
	for _, w := range m.raw.words {
		special := slices.IndexFunc(w.symbols, func(b byte) bool { return byteClasses[b].special })
		if special < 0 {
			special = len(w.symbols)
		}
		if special >= window { // otherwise inspect stops there
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
	maxBeginBytes = maxBegin * maxGap // bytes that these may take
	maxSkip       = 16 << 10          // bytes, so that s.escapes stays small
)

// skip passes text, from place i on, which is at base+i in the whole text, in which no word begins, and stops so long
// before one, or before the end, that the first symbols of a word are behind it. It does the same as read, in less
// time.
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

// skipOrdinary passes bytes up to three of which one is special, or is the last of the beginning of a word. Four letters before
// the last two are in each beginning that ends with one of three bytes.
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

// inspectSpecial reads a special character. It returns its size, and 0 if a word may begin beside or within it, or if more
// text is needed.
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

// rewind returns the place from which on the text before place i is read, to know what a word may begin with. Text was
// skipped from begin on. The place is behind no backslash or indent.
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

// dependsOnPrevious reports whether what a byte behind b is depends on b.
func dependsOnPrevious(b byte) bool {
	return b == '\\' || b == ' ' || b == '\t' || b == '\n' || b == '\r'
}
