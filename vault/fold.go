package vault

import "bytes"

// breaks finds the newlines of a text, and the backslashes that begin escaped line breaks.
type breaks struct {
	text           []byte
	newline, slash int // next positions, if not before the position in question
}

// from returns the first position of a line break from i on, or the end of the text.
func (k *breaks) from(i int) int {
	if k.newline < i {
		k.newline = k.next(i, '\n')
	}
	for k.slash < i {
		k.slash = k.next(i, '\\')
		if k.slash == len(k.text) {
			break
		}
		if n, known := lineBreak('\\', k.text[k.slash+1:]); n == 0 && known {
			i = max(i, k.slash+1)
		}
	}
	return min(k.newline, k.slash)
}

func (k *breaks) next(i int, b byte) int {
	if n := bytes.IndexByte(k.text[i:], b); n >= 0 {
		return i + n
	}
	return len(k.text)
}

// breaking are the first bytes of line breaks.
var breaking = setOf("\n\r\\=")

// straight reports whether text has no indent and no second line break, as far as it can be part of a prefix.
func straight(text []byte) bool {
	if text[0] == ' ' || text[0] == '\t' {
		return false
	}
	for i, b := range text[:window-1] {
		if breaking.has(b) {
			if n, known := lineBreak(b, text[i+1:]); b == '\n' || n > 0 || !known {
				return false
			}
		}
	}
	return true
}

// maxCut is the maximum number of bytes that turn out to be the beginning of a word only with the next byte: a prefix
// without its last byte, and =\r.
const maxCut = window + 1

// fold starts the threads of words with a line break within their first bytes; the last byte read is the break's
// newline or backslash. The table has the prefixes without the break, so fold looks the text up without it.
func (s *scan) fold(rest []byte) {
	if byte(s.last) == '\\' {
		switch n, known := lineBreak('\\', rest); {
		case !known:
			s.foldAt(1, len(rest), rest)
		case n > 0:
			s.foldAt(1, n, rest)
		}
		return
	}
	s.foldAt(1, 0, rest)
	before := 1
	if byte(s.last>>8) == '\r' {
		before++
		s.foldAt(before, 0, rest)
	}
	if byte(s.last>>(8*before)) == '=' {
		s.foldAt(before+1, 0, rest)
	}
}

// foldAt is fold for a break with before bytes among those read, and after bytes in rest.
func (s *scan) foldAt(before, after int, rest []byte) {
	head := simple(s.last >> (8 * before))
	if tail := rest[after:]; len(tail) >= window-1 && straight(tail) {
		next := simple(uint64(tail[0])<<16 | uint64(tail[1])<<8 | uint64(tail[2]))
		for n := 1; n < window && int64(n+before) <= s.now; n++ {
			key := uint32((head<<24 | next&0xffffff) >> (8 * (n - 1)))
			s.begin(s.prefixes.begins(key, tail[window-n:])&s.folds, n+before, rest)
		}
		return
	}
	for n := 1; n < window && int64(n+before) <= s.now; n++ {
		key := uint32(head) & (1<<(8*n) - 1)
		if groups := s.unfoldIndent(key, n, rest[after:]); groups != 0 {
			s.begin(groups&s.folds, n+before, rest)
		}
	}
}

// unfold returns the patterns of which a word may begin with the n normalized bytes of key and the text, without the
// line breaks in it.
func (s *scan) unfold(key uint32, n int, text []byte, broken bool) uint16 {
	if n == window {
		return s.prefixes.begins(key, text)
	}
	if len(text) == 0 {
		return s.folds
	}
	b := text[0]
	groups := s.unfold(key<<8|uint32(simple(uint64(b)))&0xff, n+1, text[1:], false)
	if broken || !breaking.has(b) {
		return groups
	}
	switch after, known := lineBreak(b, text[1:]); {
	case !known:
		return s.folds
	case after > 0 || b == '\n':
		groups |= s.unfoldIndent(key, n, text[1+after:])
	}
	return groups
}

// unfoldIndent is unfold behind a line break, where blanks may be an indent, or the last of them part of the word.
func (s *scan) unfoldIndent(key uint32, n int, text []byte) (groups uint16) {
	indent := 0
	for indent < len(text) && (text[indent] == ' ' || text[indent] == '\t') {
		indent++
	}
	for i := max(0, indent-window); i <= indent; i++ {
		groups |= s.unfold(key, n, text[i:], true)
	}
	return groups
}

// lineBreak returns how many bytes of a line break follow its first byte: \r\n, \n and \r\n escaped, with any number
// of backslashes, and a newline that a shell or quoted-printable ignores. known is false if the text ends too early.
func lineBreak(first byte, text []byte) (n int, known bool) {
	if first == '\n' {
		return 0, true
	}
	for n < len(text) && (first == '\\' && (text[n] == '\\' || text[n] == 'r') || first == '=' && n == 0 && text[n] == '\r') {
		n++
	}
	switch {
	case n == len(text):
		return 0, false
	case text[n] == '\n' || first == '\\' && text[n] == 'n':
		return n + 1, true
	}
	return 0, true
}
