package docker

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// longest is how many bytes of a line people are shown.
const longest = 2000

// plain takes from text of others what could speak to a terminal or turn it around: escape sequences,
// other control characters, and invisible ones.
func plain(s string) string {
	if len(s) > longest {
		s = s[:longest]
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] == 0x1b {
			i += escape(s[i:])
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			b.WriteByte(' ')
		case unicode.IsPrint(r) && r != utf8.RuneError:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// escape is the length of the escape sequence with which s begins (ECMA-48): ESC and a byte, a control
// sequence that ends with a byte from @ to ~, or a string that ends with BEL or ESC \.
func escape(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
		}
		return len(s)
	case ']', 'P', 'X', '^', '_':
		for i := 2; i < len(s); i++ {
			if s[i] == 0x07 {
				return i + 1
			}
			if s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\' {
				return i + 2
			}
		}
		return len(s)
	}
	return 2
}
