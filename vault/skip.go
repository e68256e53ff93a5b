package vault

// kind says what a byte of text is in each view: its symbol, if size is 8, and otherwise nothing.
type kind struct {
	plain, letter         byte
	plainSize, letterSize uint8
	special               bool // it is no character by itself
	breaks                bool // it stands between no two letters of a word
	slow                  bool // it is special, or in one view only
}

var bytesOf = func() (t [256]kind) {
	for i := range t {
		b, k := byte(i), &t[i]
		k.plain, k.plainSize = b, 8
		switch {
		case 'A' <= b && b <= 'Z':
			k.letter, k.letterSize = b+'a'-'A', 8
		case isWord(b) && b != '_' || b >= 0x80:
			k.letter, k.letterSize = b, 8
			k.special = b == 0xc2 || b == 0xe2 || b == 0xef
		case b == '+' || b == '\t': // a URL has + for a blank
			k.plain = ' '
		case b == '=': // mail breaks lines behind one
			k.plain, k.plainSize = 0, 0
		case b == '\n':
			k.plain, k.plainSize, k.special = 0, 0, true
		case b == 0 || b == '\r' || b == '\\' || b == '%' || b == '&' || b == 0x1b:
			k.special = true
		case b < ' ':
			k.breaks = true
		}
		k.slow = k.special || k.breaks || k.plainSize == 0
	}
	return t
}()

// skip passes bytes of text, from place i on, which is at base+i in the whole text, up to the end, the last byte of the
// beginning of a word, or a special byte. It does the same as read, in less time.
func (s *scan) skip(text []byte, i int, base int64) int {
	all, letters, begin := s.all.last, s.letters.last, i
	for {
		i, all, letters = plainRun(text, i, all, letters, s.all.filter, s.letters.filter)
		if i == len(text) {
			break
		}
		k := &bytesOf[text[i]]
		if k.slow {
			next := i + 1
			if text[i] != '=' {
				next = behindIndent(text, i)
			}
			if next == i {
				break
			}
			i = next
			continue
		}
		_, begins := s.all.at(all)
		if !begins && k.letterSize > 0 {
			_, begins = s.letters.at(letters)
		}
		if begins {
			break
		}
		i++
	}
	s.passed(text, begin, i, base)
	return i
}

// codes has the kind of each byte in a number: its symbols, from bit 16 on the size of the letter, and slow on top.
var codes = func() (t [256]uint32) {
	for i, k := range bytesOf {
		t[i] = uint32(k.plain) | uint32(k.letter)<<8 | uint32(k.letterSize)<<16
		if k.slow {
			t[i] |= slow
		}
	}
	return t
}()

const slow = 1 << 31

// plainRun passes bytes up to a slow one, or one with which a word may begin. It adds the symbols of that one, too.
func plainRun(text []byte, i int, all, letters uint64, a, l *filter) (int, uint64, uint64) {
	for ; i < len(text); i++ {
		k := codes[text[i]]
		if k&slow != 0 {
			break
		}
		all, letters = all<<8|uint64(k&0xff), letters<<(k>>16&63)|uint64(k>>8&0xff)
		if (a.has(hash(all))|l.has(hash(letters)))&1 == 1 {
			break
		}
	}
	return i, all, letters
}

// behindIndent returns the place behind a line break and the indent after it, and i if there is none, or if what stands
// there may be the offset of a dump.
func behindIndent(text []byte, i int) int {
	next := i + 1
	for next < len(text) && (text[next] == ' ' || text[next] == '\t') {
		next++
	}
	if text[i] == '\n' && next < len(text) && text[next] > ' ' && text[next] != '0' {
		return next
	}
	return i
}

// passed updates the views for the bytes from place begin to end.
func (s *scan) passed(text []byte, begin, end int, base int64) {
	if begin == end {
		return
	}
	var places [8]int
	n := 0
	for i := end - 1; i >= begin && n < len(places); i-- {
		indent := i
		for indent > begin && (text[indent] == ' ' || text[indent] == '\t') {
			indent--
		}
		if text[indent] == '\n' {
			i = indent
		} else if bytesOf[text[i]].plainSize > 0 {
			places[n] = i
			n++
		}
	}
	for ; n > 0; n-- {
		s.all.push(bytesOf[text[places[n-1]]].plain, base+int64(places[n-1]))
	}
	for i := max(begin, end-8); i < end; i++ {
		s.raw.push(text[i], base+int64(i))
	}
	from := end
	for n := 0; from > begin && n < 8; from-- {
		n += int(bytesOf[text[from-1]].letterSize >> 3)
	}
	for i := from; i < end; i++ {
		if k := &bytesOf[text[i]]; k.letterSize > 0 {
			s.letters.push(k.letter, base+int64(i))
			s.closed = false
		} else if text[i] > ' ' {
			s.closed = closes(text[i])
		}
	}
	s.dump.blanks, s.dump.begun = 0, true
}

// push adds a symbol of one byte.
func (v *view) push(symbol byte, from int64) {
	v.last = v.last<<8 | uint64(symbol)
	v.begins[v.count&7] = from
	v.count++
	v.end = from + 1
}
