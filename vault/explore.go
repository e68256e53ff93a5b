package vault

import (
	"fmt"
	"math/bits"
	"strings"
	"sync"
)

// explorer finds all prefixes of patterns.
type explorer struct {
	to   *prefixes
	sets [window + 1]steps
}

// What may stand between two of the first symbols is listed for all ways of writing but asText, so
// that a lease is quickly made. Further on, all is followed that between and listed know.
var (
	foldGaps = []string{"\n", "\r\n", "\n ", "\n\t", `\n`, `\r\n`, `\\n`, "=\n", "=\r\n"}
	listGaps = []string{
		" ", "  ", "   ", "\t", "\n", "\r\n", "\n ", " \n", `\`, `\n`, `\x`, "-", ".", "'", "+", "/", ":", ";", "_", "|",
		",", ", ", ",\n", ",\n ", ",\r\n", "','", `","`, "', '", `", "`, "; ", ": ", " : ", " - ", " + ", " | ",
		" 0x", ",0x", ", 0x", " 0b", ",0b", ", 0b", " 0o", ",0o", ", 0o",
	}
)

// all explores the words of one of the matcher's patterns.
func (e *explorer) all(p *patterns, group int) {
	numbers := numerals()
	for i, w := range p.words {
		var buf [window]string
		spelled, plain := p.spelling(buf[:0], w, numbers)
		switch {
		case p.way == asText:
			e.sets[0].threads = append(e.sets[0].threads[:0],
				thread{group: uint8(group), point: point{lo: int32(i), hi: int32(i + 1)}})
			e.explore(p, group, 0, 0)
		case p.way == asSpaced:
			spelled = characters(w)
			e.join(group, spelled, listGaps)
		case p.radix != 0:
			e.join(group, spelled, listGaps)
			if p.way == asHex || p.way == asBinary {
				digits := spelled[0] + spelled[1]
				e.fold(group, []string{digits[:1], digits[1:2], digits[2:3], digits[3:4]})
			}
		default:
			e.fold(group, spelled)
			if !plain {
				e.escaped(group, spelled, p.way == asBase64)
			}
		}
	}
}

// escaped adds the prefixes of symbols of which punctuation is escaped, some or all in one manner; in
// base64, which is what gets folded, also with a line break.
func (e *explorer) escaped(group int, symbols []string, base64 bool) {
	var parts [window]string
	for set := 1; set < 1<<window; set++ {
		special := true
		for i, s := range symbols {
			special = special && (set>>i&1 == 0 || !isWord(s[0]) || s == "_")
		}
		if !special {
			continue
		}
		for _, manner := range escapes() {
			for i, s := range symbols {
				parts[i] = s
				if set>>i&1 == 1 {
					parts[i] = manner[s[0]]
				}
			}
			if base64 {
				e.fold(group, parts[:])
			} else {
				e.add(group, parts[:]...)
			}
		}
	}
}

// escapes is how the bytes are written in the manners that escape knows, as far as prefixes differ.
var escapes = sync.OnceValue(func() (t [][256]string) {
	for _, format := range []string{`\%c`, `\\\%c`, "%%%02x", "%%25%02x", `\x%02x`, `\\x%02x`, `\u%04x`, `\\u%04x`, `\u{%x}`, `\U%08x`,
		`\%o`, `\%03o`, `\\%03o`, "&#%d;", "&#%03d;", "&#x%x;", "&#x%02x;", "&amp;#", "&quot;", "&lt;", "&gt;", "&apos;", "&amp;", "=%02x"} {
		var manner [256]string
		for c := range manner {
			manner[c] = format
			if strings.Contains(format, "%") {
				manner[c] = fmt.Sprintf(format, c)
			}
		}
		t = append(t, manner)
	}
	var url [256]string
	url['+'], url['/'] = "-", "_"
	return append(t, url)
})

// characters returns the first characters of w, of several bytes if they are not ASCII.
func characters(w []byte) []string {
	all := make([]string, 3, window)
	for i := range all {
		n := 1
		for n < len(w) && w[n]&0xc0 == 0x80 {
			n++
		}
		all[i], w = string(w[:n]), w[n:]
		if len(w) == 0 {
			break
		}
	}
	return all
}

// spelling returns the first symbols as they are written, and whether none of them is ever escaped.
func (p *patterns) spelling(to []string, w []byte, numbers *[4][256]string) (spelled []string, plain bool) {
	plain = true
	for _, s := range w[:min(window, len(w))] {
		switch {
		case p.radix != 0:
			to = append(to, numbers[p.way-asHex][s])
			continue
		case p.way == asBase64:
			s = alphabet[s]
		case p.way == asBase32:
			s = "abcdefghijklmnopqrstuvwxyz234567"[s]
		case p.way == asBase32Hex:
			s = "0123456789abcdefghijklmnopqrstuv"[s]
		}
		to = append(to, bytesAsStrings[s])
		plain = plain && (p.way == asSpaced || isWord(s) && s != '_')
	}
	return to, plain
}

// fold adds the prefixes of symbols that stand together, except for a line break between any two, or
// between all.
func (e *explorer) fold(group int, symbols []string) {
	e.add(group, symbols...)
	for _, gap := range foldGaps {
		for n := 1; n < window; n++ {
			folded := [window + 1]string{}
			copy(folded[:], symbols[:n])
			folded[n] = gap
			copy(folded[n+1:], symbols[n:])
			e.add(group, folded[:]...)
		}
	}
	e.join(group, symbols, foldGaps)
}

// join adds the prefixes of symbols with a gap between each two.
func (e *explorer) join(group int, symbols []string, gaps []string) {
	for _, gap := range gaps {
		e.add(group, symbols[0], gap, symbols[1], gap, symbols[2])
	}
	e.add(group, symbols...)
}

// add adds the prefix that parts begin with.
func (e *explorer) add(group int, parts ...string) {
	key, n := uint32(0), 0
	for _, s := range parts {
		for i := 0; i < len(s) && n < window; i++ {
			key = key<<8 | uint32(s[i])
			n++
		}
	}
	e.to.add(uint32(simple(uint64(key))), group)
}

// explore leads each byte that may come through the threads of set n.
func (e *explorer) explore(p *patterns, group int, key uint32, n int) {
	if n == window {
		e.to.add(key, group)
		return
	}
	var may byteSet
	for i := range e.sets[n].threads {
		p.candidates(&may, &e.sets[n].threads[i])
	}
	next := &e.sets[n+1]
	for i, set := range may {
		for ; set != 0; set &= set - 1 {
			b := byte(64*i + bits.TrailingZeros64(set))
			next.threads = next.threads[:0]
			for _, t := range e.sets[n].threads {
				p.step(next, t, b)
			}
			if len(next.threads) > 0 {
				e.explore(p, group, key<<8|uint32(simple(uint64(b)))&0xff, n+1)
			}
		}
	}
}

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) add(b byte) { s[b>>6] |= 1 << (b & 63) }

func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 == 1 }

func setOf(bytes string) (s byteSet) {
	for i := range len(bytes) {
		s.add(bytes[i])
	}
	return s
}

// What may come in each state, apart from the next symbols.
var (
	inText   = setOf("\n\r\\%&=+\t \x1b\xe2\xc2\xef")
	inPlain  = setOf("\n\r\\%&= ")
	inSlash  = setOf("\\xuU01234567nrtbfvae\n")
	inWide   = setOf("\x80\x81\x8b\xa0\xaa\xad\xbb\xbf")
	inEscape = setOf("0123456789abcdef\\\n\r{}#xu;[mKngtlqopsa ")
)

// candidates adds the bytes that may lead somewhere from t, of those that are the same in the simple
// form and lead to the same place one at least.
func (p *patterns) candidates(may *byteSet, t *thread) {
	from := &inEscape
	switch {
	case t.state == slash:
		from = &inSlash
	case t.state == wide2 || t.state == wide3:
		from = &inWide
	case t.state == start || t.state == afterBreak:
		from = &inPlain
		if p.way == asText {
			from = &inText
		}
	}
	for i := range may {
		may[i] |= from[i]
	}
	if t.state > slash && t.state != wide2 && t.state != wide3 || t.tail != inWord {
		return
	}
	for _, w := range p.words[t.lo:t.hi] {
		s := w[t.depth]
		switch p.way {
		case asBase64:
			may.add(alphabet[s])
			if s >= 62 {
				may.add("-_"[s-62])
			}
		case asBase32:
			may.add("abcdefghijklmnopqrstuvwxyz234567"[s])
		case asBase32Hex:
			may.add("0123456789abcdefghijklmnopqrstuv"[s])
		default:
			may.add(s)
		}
	}
}

// numerals is how the bytes are written in the ways from asHex to asBinary, without zeros before them.
var numerals = sync.OnceValue(func() *[4][256]string {
	t := new([4][256]string)
	for c := range 256 {
		t[0][c] = fmt.Sprintf("%02x", c)
		t[1][c] = fmt.Sprint(c)
		t[2][c] = fmt.Sprintf("%o", c)
		t[3][c] = fmt.Sprintf("%b", c)
	}
	return t
})

var bytesAsStrings = func() (t [256]string) {
	for c := range t {
		t[c] = string([]byte{byte(c)})
	}
	return t
}()
