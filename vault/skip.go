package vault

import "slices"

// kind says what a byte of text is in each view.
type kind struct {
	plain, letter byte // its symbols; 0: it has none
	special       bool // it may begin what spells a character, or have no width
}

var bytesOf = func() (t [256]kind) {
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

// codes has of each byte its letter, above it the number of bits of that, and slow.
var codes = func() (t [256]uint16) {
	for b, k := range bytesOf {
		if k.letter != 0 {
			t[b] = 8<<8 | uint16(k.letter)
		}
		if k.special {
			t[b] |= slow
		}
	}
	return t
}()

const slow = 1 << 15 // the byte is special

// next returns the last eight letters after a byte.
func next(last uint64, code uint16) uint64 { return last<<(code>>8&63) | uint64(code&0xff) }

// index makes skip stop at the words of the other views, where their first letters end.
func (m *matcher) index() {
	for _, w := range m.all.words {
		m.addLetters(w.symbols)
	}
	for _, w := range m.raw.words {
		special := slices.IndexFunc(w.symbols, func(b byte) bool { return bytesOf[b].special })
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
		if k := &bytesOf[b]; k.letter != 0 {
			begin = append(begin, k.letter)
		}
		if len(begin) == window {
			m.letters.add(begin, point{})
			return
		}
	}
	m.few = true
}

const (
	maxBegin = 32                // symbols with the first letters of a word
	reach    = maxBegin * maxGap // bytes that these may take
	maxSkip  = 16 << 10          // bytes, so that s.escapes stays small
)

// skip passes text, from place i on, which is at base+i in the whole text, in which no word begins, and stops so long
// before one, or before the end, that the first symbols of a word are behind it. It does the same as read, in less
// time.
func (s *scan) skip(e escaped, i int, base int64) int {
	if s.few || i < window-1 {
		return i
	}
	begin, text, last := i, e.text[:min(len(e.text), i+maxSkip)], s.letters.last
	s.escapes = s.escapes[:0]
	for {
		if i, last = s.letters.pass(text, i, last); i >= len(text) {
			return s.back(text, begin, i, base)
		}
		size, after := 1, next(last, codes[text[i]])
		if bytesOf[text[i]].special {
			size, after = s.inspect(e, i, last)
		} else if s.letters.has(after) {
			size = 0
		}
		if size == 0 {
			return s.back(text, begin, i, base)
		}
		i, last = i+size, after
	}
}

// pass passes bytes up to three of which one is special, or is the last of the beginning of a word. Four letters before
// the last two are in each beginning that ends with one of three bytes.
func (d *dictionary) pass(text []byte, i int, last uint64) (int, uint64) {
	filter := d.filter
	for ; i+3 <= len(text); i += 3 {
		t := text[i : i+3 : i+3]
		x, y, z := codes[t[0]], codes[t[1]], codes[t[2]]
		if (x|y|z)&slow != 0 {
			break
		}
		after := next(next(next(last, x), y), z)
		if filter.has(uint32(after>>(8*(window-grams)))) && (d.has(after) || d.has(after>>8) || d.has(after>>16)) {
			break
		}
		last = after
	}
	return i, last
}

// inspect reads a special character. It returns its size, and 0 if a word may begin beside or within it, or if more
// text is needed.
func (s *scan) inspect(e escaped, i int, last uint64) (size int, after uint64) {
	c, n := e.at(i, levels)
	if n == 0 || i+n+window > len(e.text) {
		return 0, last
	}
	raw := numberOf(e.text[i-window+1 : i])
	for _, b := range e.text[i : i+n+window-1] {
		if raw = raw<<8 | uint64(b); s.raw.has(raw) {
			return 0, last
		}
	}
	var room [4]byte
	for _, b := range c.appendTo(room[:0]) {
		if last = next(last, codes[b]); s.letters.has(last) {
			return 0, last
		}
	}
	s.escapes = append(s.escapes, span{int64(i), int64(i + n)})
	return n, last
}

// back returns the place from which on the text before place i is read, to know what a word may begin with. Text was
// skipped from begin on. The place is behind no backslash or indent.
func (s *scan) back(text []byte, begin, i int, base int64) int {
	s.slow = base + int64(i) + 1
	least := i - reach
	for letters := 0; i > begin && (i > least && letters < window || between(text[i-1])); {
		if n := len(s.escapes); n > 0 && int(s.escapes[n-1].to) == i {
			i, s.escapes = int(s.escapes[n-1].from), s.escapes[:n-1]
			continue
		}
		if i--; bytesOf[text[i]].letter != 0 {
			letters++
		}
	}
	if i > begin {
		for _, v := range s.views() {
			v.count = 0
		}
		s.closed, s.inLine = false, true
	}
	return i
}

// between reports whether what a byte behind b is depends on b.
func between(b byte) bool { return b == '\\' || b == ' ' || b == '\t' || b == '\n' || b == '\r' }
