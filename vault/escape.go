package vault

import (
	"html"
	"unicode/utf16"
	"unicode/utf8"
)

// char is a character of decoded text: a byte, or a code point that was written as a number.
type char int32

const (
	escapedByNumber char = 1 << 24 // marks a code point that was written as a number
	noChar          char = -1      // an escape that decodes to no character
	endOfText       char = -2      // of the text
	needMore        char = -3      // more text is needed
)

const (
	maxLevels = 3  // maximum nesting of escapes: JSON in a URL in HTML
	maxEntity = 32 // bytes of a named HTML entity
)

// appendTo appends the bytes of a visible character.
func (c char) appendTo(b []byte) []byte {
	switch {
	case c >= escapedByNumber && !isInvisible(rune(c&^escapedByNumber)):
		return utf8.AppendRune(b, rune(c&^escapedByNumber))
	case 0 <= c && c < escapedByNumber:
		return append(b, byte(c))
	}
	return b
}

// escaped is text with escapes in it. Its methods return the character at an index, and the number of bytes that encode
// it: 0 with endOfText and needMore. A level is how many times escapes are resolved: at 0, none are.
type escaped struct {
	text []byte
	last bool // no more text comes
}

// decode returns the character at index i.
func (e escaped) decode(i, level int) (char, int) {
	if i < len(e.text) && !byteClasses[e.text[i]].special {
		return char(e.text[i]), 1
	}
	c, n := e.rawByte(i)
	for inner := range level {
		var to char
		var size int
		switch c {
		case '\\':
			to, size = e.decodeBackslash(i+n, inner)
		case '%':
			to, size = e.decodePercent(i+n, inner)
		case '&':
			to, size = e.decodeEntity(i+n, inner)
		default:
			return c, n
		}
		switch {
		case to == needMore:
			return needMore, 0
		case to != endOfText:
			c, n = to, n+size
		case c == '\\':
			return noChar, n
		}
	}
	return c, n
}

// rawByte returns the byte at index i, or noChar for characters without width.
func (e escaped) rawByte(i int) (char, int) {
	if i >= len(e.text) {
		if e.last {
			return endOfText, 0
		}
		return needMore, 0
	}
	c := e.text[i]
	if c != 0xc2 && c != 0xe2 && c != 0xef {
		return char(c), 1
	}
	if !e.last && !utf8.FullRune(e.text[i:]) {
		return needMore, 0
	}
	if r, n := utf8.DecodeRune(e.text[i:]); isInvisible(r) {
		return noChar, n
	}
	return char(c), 1
}

// isInvisible reports whether a character has no width: joiners, direction marks, a byte order mark.
func isInvisible(r rune) bool {
	return r == 0xad || 0x200b <= r && r <= 0x200f || 0x202a <= r && r <= 0x202e || 0x2060 <= r && r <= 0x206f || r == 0xfeff
}

// decodeBackslash reads an escape of JSON, a programming language, or a shell. Backslashes themselves decode to
// nothing, so that it does not matter how often an escape was escaped.
func (e escaped) decodeBackslash(i, level int) (char, int) {
	c, n := e.decode(i, level)
	switch c {
	case 'x':
		return e.decodeHex(i, n, level, 2)
	case 'u':
		return e.decodeHex(i, n, level, 4)
	case 'U':
		return e.decodeHex(i, n, level, 8)
	case '0': // and the number, which may have three digits behind it
		return e.parseDigits(i, level, 8, 1, 4)
	case '1', '2', '3', '4', '5', '6', '7':
		return e.parseDigits(i, level, 8, 1, 3)
	case 'n', 'r':
		return '\n', n
	case 't':
		return '\t', n
	case 'b', 'f', 'v', 'a', 'e':
		return noChar, n
	case needMore:
		return needMore, 0
	}
	return noChar, 0
}

// decodePercent reads %2F, and %u002F of JavaScript's escape.
func (e escaped) decodePercent(i, level int) (char, int) {
	c, n := e.decode(i, level)
	switch {
	case c == 'u':
		return e.decodeHex(i, n, level, 4)
	case hexValue(c) < 16:
		return e.decodeHex(i, 0, level, 2)
	}
	return min(c, endOfText), 0
}

// decodeHex reads a number of that many hex digits, or in braces, after n bytes; two digits are a byte.
func (e escaped) decodeHex(i, n, level, digits int) (char, int) {
	if c, brace := e.decode(i+n, level); n > 0 && c == '{' {
		value, size := e.parseDigits(i+n+brace, level, 16, 1, 8)
		n += brace + size
		if c, brace = e.decode(i+n, level); value < 0 || c != '}' {
			return min(value, c, endOfText), 0
		}
		return codePoint(value), n + brace
	}
	value, size := e.parseDigits(i+n, level, 16, digits, digits)
	switch {
	case value < 0:
		return value, 0
	case digits == 2:
		return value, n + size
	case 0xd800 <= value && value < 0xdc00:
		return e.decodeSurrogatePair(i, n+size, level, value)
	}
	return codePoint(value), n + size
}

// parseDigits reads a number of least to most digits.
func (e escaped) parseDigits(i, level int, radix char, least, most int) (value char, n int) {
	for count := range most {
		c, size := e.decode(i+n, level)
		d := hexValue(c)
		switch {
		case c == needMore:
			return needMore, 0
		case d < radix && value <= utf8.MaxRune:
			value, n = value*radix+d, n+size
		case count < least:
			return endOfText, 0
		default:
			return value, n
		}
	}
	return value, n
}

// codePoint returns the character of a code point. Python writes bytes that are not UTF-8 as 0xdc80 to 0xdcff.
func codePoint(value char) char {
	if 0xdc80 <= value && value <= 0xdcff {
		return value & 0xff
	}
	if value < 0x80 {
		return value
	}
	return value | escapedByNumber
}

// decodeSurrogatePair reads the second half of a pair of surrogates.
func (e escaped) decodeSurrogatePair(i, n, level int, high char) (char, int) {
	c, size := e.decode(i+n, level)
	slashes := 0
	for ; (c == '\\' || c == '%') && slashes < maxSlashes; slashes++ {
		n += size
		c, size = e.decode(i+n, level)
	}
	if c != 'u' || slashes == 0 {
		return min(c, endOfText), 0
	}
	low, digits := e.parseDigits(i+n+size, level, 16, 4, 4)
	if low < 0 {
		return low, 0
	}
	return char(utf16.DecodeRune(rune(high), rune(low))) | escapedByNumber, n + size + digits
}

// decodeEntity reads a character of HTML, by its number or name.
func (e escaped) decodeEntity(i, level int) (char, int) {
	name, n := append(make([]byte, 0, maxEntity+1), '&'), 0
	for len(name) < maxEntity {
		c, size := e.decode(i+n, level)
		n += size
		switch {
		case c == needMore:
			return needMore, 0
		case c == ';':
			text := html.UnescapeString(string(append(name, ';')))
			if r, all := utf8.DecodeRuneInString(text); all == len(text) {
				return codePoint(char(r)), n
			}
			return endOfText, 0
		case c < 0 || c > 'z' || c != '#' && !isWord(byte(c)):
			return endOfText, 0
		}
		name = append(name, byte(c))
	}
	return endOfText, 0
}

// hexValue returns the value of a hex digit in either case, and 255 for another character.
func hexValue(c char) char {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 255
}
