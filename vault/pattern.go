package vault

import (
	"bytes"
	"slices"
)

// encoding is a way in which programs write bytes as text, and separate them. The escapes of a single byte (see escape)
// are the same in all encodings.
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

// patterns is a set of words in the same encoding, sorted, without duplicates. A word is a sequence of symbols: bytes,
// or the values of base64 or base32 characters. The words form a trie: the scan follows all words with the same
// beginning at once.
type patterns struct {
	encoding encoding
	radix    uint32 // of encodings that write numbers; 0 for others
	width    uint32 // digits of a byte in full
	words    [][]byte
	ends     []suffix
	symbols  *[256]int16 // what a byte of text stands for; -1 for nothing
	first    [257]int32  // for each symbol, the number of the first word that begins with it or a higher one
	wide     bool        // a word has a byte that is not ASCII
}

// suffix describes the text after the last whole symbol of a word in base64 or base32: a character whose first bits are
// the value's last, and padding.
type suffix struct {
	bits  byte  // these first bits, on top of a whole symbol
	known uint8 // how many they are; 0 if the word ends with a whole symbol
	size  uint8 // bits of a symbol
	pads  uint8 // = signs that may follow
}

// word is an entry of patterns before they are sorted.
type word struct {
	symbols []byte
	suffix
}

// separated reports whether the encoding allows separators between two characters.
func (w encoding) separated() bool { return w == asSpaced || w == asGrouped }

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

// point is a node of the trie: the first depth symbols of the words from number lo up to, not including, hi were read,
// and these words have more.
type point struct {
	lo, hi, depth int32
}

// child returns the node that a symbol leads to. If a word ends there, its number is the second result, otherwise -1;
// the node excludes that word, and may be empty.
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

// follows reports whether a byte of the range from from to to, inclusive, may come next as an escape. Outside of
// asText and the lists of bytes, programs do not escape letters and digits.
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

// has reports whether a symbol of the range from from to to, inclusive, comes next.
func (p *patterns) has(at point, from, to uint32) bool {
	if from > to {
		return false
	}
	i := p.search(at, from)
	return i < at.hi && uint32(p.words[i][at.depth]) <= to
}

// search returns the first word at a node whose next symbol is symbol or higher.
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

// symbols maps the bytes of text to symbols, for each encoding; -1 is none.
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
