package vault

import (
	"bytes"
	"slices"
)

// encoding is how programs write bytes as text, seen from where one byte ends and the next begins. The
// ways to write a single byte (see escape) are the same in all.
type encoding uint8

const (
	asText      encoding = iota // as it is, or with any of its bytes escaped
	asCaseless                  // in upper or lower case, with nothing escaped but punctuation
	asSpaced                    // s-e-c-r-e-t: something stands between any two characters
	asGrouped                   // 1234 5678: something may stand between any two digits
	asHex                       // hex digits in pairs, and whatever stands between the pairs
	asDecimal                   // numbers in a list
	asOctal                     //
	asBinary                    //
	asBase64                    // base64 or base64url
	asBase32                    // RFC 4648, in either case
	asBase32Hex                 // ... with the alphabet that begins with the digits
	numEncodings
)

// patterns is all that is looked for in one way of writing: words of symbols, sorted, none twice. A
// symbol is a byte, or what a character of base64 or base32 stands for. The words are a tree that
// the text is led through: all that begin alike are followed at once.
type patterns struct {
	encoding encoding
	radix    uint32 // of the ways that write numbers; 0 for others
	width    uint32 // digits of a byte in full
	words    [][]byte
	ends     []suffix
	symbols  *[256]int16 // what a byte of text stands for; -1 for nothing
	first    [257]int32  // for each symbol, the number of the first word that begins with it or a higher one
	wide     bool        // a word has a byte that is not ASCII
}

// suffix is what may follow the last whole symbol of a word in base64 or base32: a character whose
// first bits are the value's last, and padding.
type suffix struct {
	bits  byte  // these first bits, on top of a whole symbol
	known uint8 // how many they are; 0 if the word ends with a whole symbol
	size  uint8 // bits of a symbol
	pads  uint8 // = signs that may follow
}

// word is an entry of patterns that is being put together.
type word struct {
	symbols []byte
	suffix
}

// apart reports whether something may stand between two characters.
func (w encoding) apart() bool { return w == asSpaced || w == asGrouped }

func newPatterns(w encoding, all []word) patterns {
	slices.SortStableFunc(all, func(a, b word) int { return bytes.Compare(a.symbols, b.symbols) })
	p := patterns{encoding: w, symbols: &symbols[w]}
	switch w {
	case asHex:
		p.radix, p.width = 16, 2
	case asDecimal:
		p.radix, p.width = 10, 3
	case asOctal:
		p.radix, p.width = 8, 3
	case asBinary:
		p.radix, p.width = 2, 8
	}
	p.words = make([][]byte, 0, len(all))
	for i, word := range all {
		if i > 0 && bytes.Equal(word.symbols, all[i-1].symbols) {
			continue // if they differ in their last bits, those of a value itself came first
		}
		p.words = append(p.words, word.symbols)
		if w >= asBase64 {
			p.ends = append(p.ends, word.suffix)
		}
		for _, c := range word.symbols {
			p.wide = p.wide || c >= 0x80
		}
	}
	i := int32(0)
	for s := range p.first {
		for int(i) < len(p.words) && int(p.words[i][0]) < s {
			i++
		}
		p.first[s] = i
	}
	return p
}

// point is how far the text has come: it has spelled the first depth symbols of the words from
// number lo up to, not including, hi, and these have more.
type point struct {
	lo, hi, depth int32
}

// child returns where the next symbol leads to. If a word ends there, its number is the second
// result, otherwise -1; the place is without it then, and may be empty.
func (p *patterns) child(at point, symbol byte) (point, int32) {
	if at.hi-at.lo == 1 {
		if p.words[at.lo][at.depth] != symbol {
			return point{}, -1
		}
	} else {
		from := p.search(at, uint32(symbol))
		if from == at.hi || p.words[from][at.depth] != symbol {
			return point{}, -1
		}
		at.lo, at.hi = from, p.search(at, uint32(symbol)+1)
	}
	at.depth++
	if int(at.depth) < len(p.words[at.lo]) {
		return at, -1
	}
	at.lo++
	return at, at.lo - 1
}

// follows reports whether one of the bytes from one up to, including, the other can come next,
// written as an escape. Outside of asText and the lists of bytes, nobody escapes letters and digits.
func (p *patterns) follows(t *thread, from, to uint32) bool {
	if t.tail != inWord {
		return from <= '=' && '=' <= to || t.tail == inPartial && from <= '_'
	}
	if to >= 0x80 && p.wide {
		return true
	}
	switch p.encoding {
	case asText:
		return p.has(t.point, from, to)
	case asCaseless:
		for _, special := range [...][2]uint32{{0, '/'}, {':', '@'}, {'[', '`'}, {'{', 0xff}} {
			if p.has(t.point, max(from, special[0]), min(to, special[1])) {
				return true
			}
		}
	case asBase64:
		plus := from <= '+' && '+' <= to || from <= '-' && '-' <= to
		stroke := from <= '/' && '/' <= to || from <= '_' && '_' <= to
		return plus && p.has(t.point, 62, 62) || stroke && p.has(t.point, 63, 63)
	}
	return false
}

// has reports whether a symbol from one up to, including, the other comes next.
func (p *patterns) has(at point, from, to uint32) bool {
	if from > to {
		return false
	}
	i := p.search(at, from)
	return i < at.hi && uint32(p.words[i][at.depth]) <= to
}

// search returns the first word at a point whose next symbol is this one or higher.
func (p *patterns) search(at point, symbol uint32) int32 {
	if at.depth == 0 && at.lo == 0 && symbol < 257 {
		return min(p.first[symbol], at.hi)
	}
	lo, hi := at.lo, at.hi
	for lo < hi {
		if mid := (lo + hi) / 2; uint32(p.words[mid][at.depth]) < symbol {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// symbols is, for each way, what a byte of text stands for.
var symbols = func() (t [numEncodings][256]int16) {
	for w := range numEncodings {
		for c := range 256 {
			t[w][c] = int16(c)
		}
	}
	for c := 'A'; c <= 'Z'; c++ {
		t[asCaseless][c] = int16(c) + 'a' - 'A'
	}
	number := func(w encoding, alphabet string) {
		for c := range t[w] {
			t[w][c] = -1
		}
		for i := range len(alphabet) {
			t[w][alphabet[i]] = int16(i)
		}
	}
	number(asBase64, alphabet)
	t[asBase64]['-'], t[asBase64]['_'] = 62, 63
	for w, alphabet := range map[encoding]string{
		asBase32:    "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
		asBase32Hex: "0123456789ABCDEFGHIJKLMNOPQRSTUV",
	} {
		number(w, alphabet)
		for i := range len(alphabet) {
			if c := alphabet[i]; c >= 'A' {
				t[w][c|0x20] = int16(i)
			}
		}
	}
	return t
}()

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
