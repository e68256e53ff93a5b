package safetext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Model returns s as text of several lines for a model: hidden characters and bytes that are not UTF-8 are written out,
// but line ends, tabs, and the joiners and selectors that emoji and the letters of some scripts need stay.
func Model(s string) string {
	if !strings.ContainsFunc(s, actsOnReader) {
		return s
	}
	var b strings.Builder
	before := rune(0)
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
			r = 0
		case !actsOnReader(r), isJoiner(r, before, s[i+utf8.RuneLen(r):]):
			b.WriteRune(r)
		default:
			escape(&b, r)
			r = 0
		}
		before = r
	}
	return b.String()
}

func actsOnReader(r rune) bool {
	return r == utf8.RuneError || Hidden(r) && r != '\n' && r != '\t' && r != '\r'
}

// isJoiner reports whether a hidden character is part of how the one before it is written: of an emoji, or of a letter
// of a script that joins its letters.
func isJoiner(r, before rune, after string) bool {
	next, _ := utf8.DecodeRuneInString(after)
	switch r {
	case '\ufe0f': // as an emoji, and not as text
		return unicode.In(before, unicode.So, unicode.Sm) || '0' <= before && before <= '9' || strings.ContainsRune("#*‼⁉", before)
	case '\u200d': // zero width joiner
		if emoji := func(r rune) bool { return unicode.In(r, unicode.So, unicode.Sk) }; emoji(next) && (emoji(before) || before == '\ufe0f') {
			return true
		}
	case '\u200c': // zero width non-joiner
	default:
		return false
	}
	return isJoined(before) && isJoined(next)
}

func isJoined(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi,
		unicode.Gujarati,
		unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala)
}
