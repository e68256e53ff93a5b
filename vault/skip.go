package vault

import (
	"bytes"
	"slices"
)

// kind says what a byte of text is in each view.
type kind struct {
	plain, letter     byte // its symbols
	isPlain, isLetter bool // whether it has them
	special           bool // it is no character by itself, or ends a line
	spells            bool // it may begin what spells a character, or have no width
	breaks            bool // it stands between no two letters of a word
}

var bytesOf = func() (t [256]kind) {
	for i := range t {
		b, k := byte(i), &t[i]
		k.plain, k.isPlain = b, true
		switch {
		case 'A' <= b && b <= 'Z':
			k.letter, k.isLetter = b+'a'-'A', true
		case isWord(b) && b != '_' || b >= 0x80:
			k.letter, k.isLetter = b, true
			k.special = b == 0xc2 || b == 0xe2 || b == 0xef
			k.spells = k.special
		case b == '+' || b == '\t': // a URL has + for a blank
			k.plain = ' '
		case b == '=': // mail breaks lines behind one
			k.isPlain = false
		case b == '\n':
			k.isPlain, k.special = false, true
		case b == '\\' || b == '%' || b == '&' || b == 0x1b:
			k.special, k.spells = true, true
		case b == 0 || b == '\r':
			k.special = true
		case b < ' ':
			k.breaks = true
		}
	}
	return t
}()

// codes has of each byte its symbol in a view, above it the number of bits of that, and slow.
type codes [256]uint16

const slow = 1 << 15 // skip inspects the byte

// next returns the last eight symbols after a byte.
func next(last uint64, code uint16) uint64 { return last<<(code>>8&63) | uint64(code&0xff) }

// index makes skip stop at the words of the other views: where their first letters end, or if one has too few, at the
// beginnings of words in all, too.
func (m *matcher) index() {
	for b, k := range bytesOf {
		if k.isLetter || k.breaks {
			m.inLetters[b] = 8<<8 | uint16(k.letter)
		}
		if k.isPlain && b != 0 {
			m.inAll[b] = 8<<8 | uint16(k.plain)
		}
		if k.special && b != 0 {
			m.inLetters[b] |= slow
			m.inAll[b] |= slow
		}
	}
	for _, w := range m.all.words {
		m.few = !m.addLetters(w.symbols) || m.few
	}
	m.slowFrom = 1
	for _, w := range m.raw.words {
		special := slices.IndexFunc(w.symbols, func(b byte) bool { return bytesOf[b].special || !bytesOf[b].isPlain })
		if 0 <= special && special < window {
			m.inLetters[w.symbols[special]] |= slow
			m.slowFrom = 1 - window
			continue
		}
		if special < 0 {
			special = len(w.symbols)
		}
		if !m.addLetters(w.symbols[:special]) {
			m.few = true
			begin := bytes.Clone(w.symbols[:window])
			for i, b := range begin {
				begin[i] = bytesOf[b].plain
			}
			m.all.add(begin, point{})
		}
	}
}

// addLetters adds the first letters of a word of another view. It reports false if they are too few, or too far away.
func (m *matcher) addLetters(symbols []byte) bool {
	var begin []byte
	for _, b := range symbols[:min(len(symbols), maxBegin)] {
		if k := &bytesOf[b]; k.isLetter || k.breaks {
			begin = append(begin, k.letter)
		}
		if len(begin) == window {
			m.letters.add(begin, point{})
			return true
		}
	}
	return false
}

const (
	maxBegin = 32                // symbols with the first letters of a word
	reach    = maxBegin * maxGap // bytes that these may take
	minSkip  = 32                // bytes of text that are worth it
	maxSkip  = 16 << 10          // bytes, so that s.special stays small
)

// skip passes text, from place i on, which is at base+i in the whole text, in which no word begins, and stops so long
// before one, or before the end, that the first symbols of a word are behind it. It does the same as read, in less time.
func (s *scan) skip(e escaped, i int, base int64) int {
	if i < window-1 || len(e.text)-i < minSkip {
		return i
	}
	begin, to, last := i, min(len(e.text), i+maxSkip), lasts{s.letters.last, s.all.last}
	s.special = s.special[:0]
	for i < to {
		i, last = s.plain(e.text[:to], i, last)
		for n := 0; n < 3 && i < to; n++ {
			b := e.text[i]
			if s.inLetters[b]&slow != 0 {
				behind, now := s.inspect(e, i, last)
				if behind == i {
					return s.back(e.text, begin, i, base)
				}
				s.special = append(s.special, span{int64(i), int64(behind)})
				i, last = behind, now
				break
			}
			last = lasts{next(last.letters, s.inLetters[b]), next(last.all, s.inAll[b])}
			if s.letters.has(last.letters) || s.few && s.all.has(last.all) {
				return s.back(e.text, begin, i, base)
			}
			i++
		}
	}
	return s.back(e.text, begin, i, base)
}

// lasts are the last eight symbols of two views.
type lasts struct{ letters, all uint64 }

// plain passes bytes up to three of which one is slow, or is the last of the beginning of a word.
func (s *scan) plain(text []byte, i int, last lasts) (int, lasts) {
	to, letters := s.letters.pass(text, i, last.letters, &s.inLetters)
	if s.few {
		stop, all := s.all.pass(text[:to], i, last.all, &s.inAll)
		if stop < to {
			to, letters = s.letters.pass(text[:stop], i, last.letters, &s.inLetters)
		}
		last.all = all
	}
	return to, lasts{letters, last.all}
}

// pass is plain for one view. It takes three bytes at a time: four symbols before the last two are in each beginning that
// ends with one of these bytes.
func (d *dictionary) pass(text []byte, i int, last uint64, codes *codes) (int, uint64) {
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

// inspect reads a slow character at place i, and what is read together with it: behind backslashes, the character that
// follows, and behind the end of a line, the beginning of the next. It returns the place behind them, and i if they may
// be in a word, if more text is needed, or if the next line is that of a dump.
func (s *scan) inspect(e escaped, i int, last lasts) (int, lasts) {
	if s.ahead == nil {
		s.ahead = &scan{matcher: s.matcher}
	}
	a, to := s.ahead, i
	a.inLine, a.slashes, a.dump.offset = true, 0, 0
	a.all.seen, a.letters.seen = a.all.seen[:0], a.letters.seen[:0]
	for to == i || a.slashes > 0 || !a.inLine {
		if to == len(e.text) {
			return i, last
		}
		n := a.read(e, to, int64(to))
		if n == 0 || !a.dump.idle() {
			return i, last
		}
		to += n
	}
	if to+window > len(e.text) {
		return i, last
	}
	raw := numberOf(e.text[i+s.slowFrom : i+s.slowFrom+window-1])
	for _, b := range e.text[i+s.slowFrom+window-1 : to+window-1] {
		if raw = raw<<8 | uint64(b); s.raw.has(raw) {
			return i, last
		}
	}
	for _, b := range a.letters.seen {
		if last.letters = last.letters<<8 | uint64(b); s.letters.has(last.letters) {
			return i, last
		}
	}
	for _, b := range a.all.seen {
		if last.all = last.all<<8 | uint64(b); s.few && s.all.has(last.all) {
			return i, last
		}
	}
	return to, last
}

// back returns the place from which on the text before place i is read, to know what a word may begin with. Text was
// skipped from begin on.
func (s *scan) back(text []byte, begin, i int, base int64) int {
	s.slow = base + int64(i) + 1
	least := i - reach
	for letters := 0; i > begin && i > least && letters < window; {
		if n := len(s.special); n > 0 && int(s.special[n-1].to) == i {
			i, s.special = int(s.special[n-1].from), s.special[:n-1]
			continue
		}
		if i--; s.inLetters[text[i]]&^slow != 0 {
			letters++
		}
	}
	if i > begin {
		for _, v := range []*view{&s.all, &s.letters, &s.raw} {
			v.count = 0
		}
		s.closed, s.dump.blanks, s.dump.begun = false, 0, true
	}
	return i
}
