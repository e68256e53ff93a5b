package vault

import (
	"unicode/utf16"
	"unicode/utf8"
)

// escape follows the escaped spellings of want's first character: %2F and \x2f for a byte, \u002f
// or a pair of these for a rune, and a backslash with a letter or with the character itself. It
// returns the state after b, and how many bytes of want were spelled by then.
func escape(want []byte, s state, b byte) (state, int) {
	switch s {
	case start:
		switch b {
		case '%':
			return pairHigh, 0
		case '\\':
			return slash, 0
		}
	case slash:
		switch {
		case b == 'x':
			return pairHigh, 0
		case b == 'u':
			return unit0, 0
		case b == short(want[0]):
			return start, 1
		}
	case pairHigh:
		if unhex(b) == want[0]>>4 {
			return pairLow, 0
		}
	case pairLow:
		if unhex(b) == want[0]&15 {
			return start, 1
		}
	case lowSlash:
		if b == '\\' {
			return lowU, 0
		}
	case lowU:
		if b == 'u' {
			return low0, 0
		}
	default:
		return escapeUnit(want, s, b)
	}
	return dead, 0
}

// escapeUnit follows the digits of \u.
func escapeUnit(want []byte, s state, b byte) (state, int) {
	high, low, size := units(want)
	switch {
	case unit0 <= s && s <= unit3 && unhex(b) == digit(high, s-unit0):
		if s < unit3 {
			return s + 1, 0
		}
		if low != 0 {
			return lowSlash, 0
		}
		return start, size
	case low0 <= s && s <= low3 && unhex(b) == digit(low, s-low0):
		if s < low3 {
			return s + 1, 0
		}
		return start, size
	}
	return dead, 0
}

// units returns the first character of v in UTF-16, and its size in v. A byte that is not UTF-8 is
// what Python makes of it.
func units(v []byte) (high, low uint16, size int) {
	r, size := utf8.DecodeRune(v)
	switch {
	case r == utf8.RuneError && size == 1:
		return 0xdc00 + uint16(v[0]), 0, 1
	case r > 0xffff:
		h, l := utf16.EncodeRune(r)
		return uint16(h), uint16(l), size
	}
	return uint16(r), 0, size
}

// digit returns the hex digit number i, from the left, of a UTF-16 unit.
func digit(unit uint16, i state) byte { return byte(unit>>(12-4*i)) & 15 }

// short returns the letter that stands for c after a backslash, in JSON, JavaScript, Python or a
// shell; 0 if there is none.
func short(c byte) byte {
	switch c {
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	case '\b':
		return 'b'
	case '\f':
		return 'f'
	}
	if ' ' <= c && c < 0x7f && !isWord(c) {
		return c
	}
	return 0
}

// lineBreak follows a line break between two symbols: \n or \r\n, as bytes or written out.
func lineBreak(s state, b byte) state {
	switch {
	case s == start && b == '\n', s == breakLF && b == '\n', s == slash && b == 'n', s == breakN && b == 'n':
		return afterBreak
	case s == start && b == '\r':
		return breakLF
	case s == start && b == '\\':
		return slash
	case s == slash && b == 'r':
		return breakSlash
	case s == breakSlash && b == '\\':
		return breakN
	}
	return dead
}

// unhex returns the value of a hex digit in either case, and 255 for another byte.
func unhex(b byte) byte {
	switch {
	case '0' <= b && b <= '9':
		return b - '0'
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		return b | 0x20 - 'a' + 10
	}
	return 255
}
