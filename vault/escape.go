package vault

import (
	"html"
	"unicode/utf16"
	"unicode/utf8"
)

// char is a character of decoded text: a byte, or a character that was written by its number.
type char int32

const (
	byNumber char = 1 << 24 // marks the latter
	nothing  char = -1      // an escape that stands for nothing
	end      char = -2      // of the text
	more     char = -3      // what comes next decides
)

const (
	levels    = 3  // how many different escapes may be wrapped in each other: JSON in a URL in HTML
	maxColour = 32 // bytes of a terminal's escape sequence
	maxEntity = 32 // bytes of a named character of HTML
)

// escaped is text with escapes in it. Its methods return the character that is spelled at a place, and the number of
// bytes that spell it: 0 with end and more. A level is how often escapes are resolved: at 0, none are.
type escaped struct {
	text []byte
	last bool // no more text comes
}

// at returns the character at place i.
func (e escaped) at(i, level int) (char, int) {
	if i < len(e.text) && !bytesOf[e.text[i]].spells {
		return char(e.text[i]), 1
	}
	c, n := e.raw(i)
	for inner := range level {
		var to char
		var size int
		switch c {
		case '\\':
			to, size = e.backslash(i+n, inner)
		case '%':
			to, size = e.percent(i+n, inner)
		case '&':
			to, size = e.entity(i+n, inner)
		case 0x1b:
			to, size = e.colour(i+n, inner)
		default:
			return c, n
		}
		switch {
		case to == more:
			return more, 0
		case to != end:
			c, n = to, n+size
		case c == '\\' || c == 0x1b:
			return nothing, n
		case inner == 0 && e.unescaped(i+n):
			return c, n // as at all levels
		}
	}
	return c, n
}

// unescaped reports whether there is no escape in what decides whether % or & at the byte before begins one.
func (e escaped) unescaped(i int) bool {
	for n := 0; n < maxEntity && i < len(e.text) && (isWord(e.text[i]) || e.text[i] == '#' || e.text[i] == '{'); n++ {
		i++
	}
	return i < len(e.text) && !bytesOf[e.text[i]].spells
}

// raw returns the byte at place i, or nothing for characters without width.
func (e escaped) raw(i int) (char, int) {
	if i >= len(e.text) {
		if e.last {
			return end, 0
		}
		return more, 0
	}
	c := e.text[i]
	if c != 0xc2 && c != 0xe2 && c != 0xef {
		return char(c), 1
	}
	if !e.last && !utf8.FullRune(e.text[i:]) {
		return more, 0
	}
	if r, n := utf8.DecodeRune(e.text[i:]); unseen(r) {
		return nothing, n
	}
	return char(c), 1
}

// unseen reports whether a character has no width: joiners, marks of direction, a byte order mark.
func unseen(r rune) bool {
	return r == 0xad || 0x200b <= r && r <= 0x200f || 0x202a <= r && r <= 0x202e || 0x2060 <= r && r <= 0x206f || r == 0xfeff
}

// backslash reads an escape of JSON, a programming language, or a shell. Backslashes themselves stand for nothing, so
// that it does not matter how often an escape was escaped.
func (e escaped) backslash(i, level int) (char, int) {
	c, n := e.at(i, level)
	switch c {
	case 'x':
		return e.hex(i, n, level, 2)
	case 'u':
		return e.hex(i, n, level, 4)
	case 'U':
		return e.hex(i, n, level, 8)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return e.octal(i, level)
	case 'n':
		return '\n', n
	case 'r':
		return '\r', n
	case 't':
		return '\t', n
	case 'e':
		return 0x1b, n
	case 'b', 'f', 'v', 'a':
		return nothing, n
	case more:
		return more, 0
	}
	return nothing, 0
}

// percent reads %2F, and %u002F of JavaScript's escape.
func (e escaped) percent(i, level int) (char, int) {
	c, n := e.at(i, level)
	if c == 'u' {
		return e.hex(i, n, level, 4)
	}
	if c == more {
		return more, 0
	}
	if digit(c) >= 16 {
		return end, 0
	}
	return e.hex(i, 0, level, 2)
}

// hex reads a number of so many digits, or in braces, after n bytes; with two digits, it is that of a byte.
func (e escaped) hex(i, n, level, digits int) (char, int) {
	c, brace := e.at(i+n, level)
	if c == '{' && n > 0 {
		return e.number(i, n+brace, level, 16, '}')
	}
	var value char
	for range digits {
		c, size := e.at(i+n, level)
		if c == more {
			return more, 0
		}
		d := digit(c)
		if d >= 16 || value > utf8.MaxRune {
			return end, 0
		}
		value, n = value<<4|d, n+size
	}
	if digits == 2 {
		return value, n
	}
	if 0xd800 <= value && value < 0xdc00 {
		return e.pair(i, n, level, value)
	}
	return character(value), n
}

// character returns the character of a number. Python writes bytes that are not UTF-8 as 0xdc80 to 0xdcff.
func character(value char) char {
	if 0xdc80 <= value && value <= 0xdcff {
		return value & 0xff
	}
	if value < 0x80 {
		return value
	}
	return value | byNumber
}

// pair reads the second half of a pair of surrogates.
func (e escaped) pair(i, n, level int, high char) (char, int) {
	c, size := e.at(i+n, level)
	if c != '\\' && c != '%' {
		return min(c, end), 0
	}
	for count := 0; (c == '\\' || c == '%') && count < maxSlashes; count++ {
		n += size
		c, size = e.at(i+n, level)
	}
	if c != 'u' {
		return min(c, end), 0
	}
	low := char(0)
	n += size
	for range 4 {
		c, size := e.at(i+n, level)
		if d := digit(c); d >= 16 {
			return min(c, end), 0
		} else {
			low, n = low<<4|d, n+size
		}
	}
	return char(utf16.DecodeRune(rune(high), rune(low))) | byNumber, n
}

// octal reads up to three digits, or four after a zero, that are the number of a byte.
func (e escaped) octal(i, level int) (char, int) {
	value, n := char(0), 0
	for count := 0; count < 4; count++ {
		c, size := e.at(i+n, level)
		if c == more {
			return more, 0
		}
		d := digit(c)
		if d >= 8 || value<<3|d > 0xff || count == 3 && e.text[i] != '0' {
			break
		}
		value, n = value<<3|d, n+size
	}
	return value, n
}

// number reads digits up to the byte after them.
func (e escaped) number(i, n, level int, radix, closing char) (char, int) {
	value := char(0)
	for count := 0; ; count++ {
		c, size := e.at(i+n, level)
		if c == closing && count > 0 {
			return character(value), n + size
		}
		d := digit(c)
		if c == more {
			return more, 0
		}
		if d >= radix || count == 8 || value > utf8.MaxRune {
			return end, 0
		}
		value, n = value*radix+d, n+size
	}
}

// entity reads a character of HTML, by its number or name.
func (e escaped) entity(i, level int) (char, int) {
	c, n := e.at(i, level)
	if c == '#' {
		x, size := e.at(i+n, level)
		if x|0x20 == 'x' {
			return e.number(i, n+size, level, 16, ';')
		}
		if x == more {
			return more, 0
		}
		return e.number(i, n, level, 10, ';')
	}
	name, n := [maxEntity]byte{'&'}, 0
	for length := 1; length < len(name); length++ {
		c, size := e.at(i+n, level)
		n += size
		switch {
		case c == more:
			return more, 0
		case c == ';' && length > 2:
			name[length] = ';'
			text := html.UnescapeString(string(name[:length+1]))
			if r, all := utf8.DecodeRuneInString(text); all == len(text) {
				return character(char(r)), n
			}
			return end, 0
		case c < 0 || c > 'z' || !isWord(byte(c)) || c == '_':
			return end, 0
		}
		name[length] = byte(c)
	}
	return end, 0
}

// colour reads an escape sequence of a terminal.
func (e escaped) colour(i, level int) (char, int) {
	c, n := e.at(i, level)
	if c != '[' {
		return min(c, end), 0
	}
	for n < maxColour {
		c, size := e.at(i+n, level)
		n += size
		switch {
		case c == more:
			return more, 0
		case '@' <= c && c <= '~':
			return nothing, n
		case c < ' ' || c > '~':
			return end, 0
		}
	}
	return end, 0
}

// digit returns the value of a hex digit in either case, and 255 for another character.
func digit(c char) char {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 255
}
