package mcp

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// excerpt returns s if it takes no more than max bytes, or else its head and its tail with a line
// between that says how much is missing and where it is. That is in bytes of what is shown: what is
// not readable takes more than it has.
func excerpt(s string, max int, where string) (shown string, whole bool) {
	if len(s) <= max {
		if r := readable(s); len(r) <= max {
			return r, true
		}
	}
	head, headLen := cut(s, max/2, headOf)
	tail, tailLen := cut(s[headLen:], max/2, tailOf)
	left := len(s) - headLen - tailLen
	return fmt.Sprintf("%s\n[... %d bytes left out here%s ...]\n%s", strings.TrimSuffix(head, "\n"), left, where, tail), false
}

// cut returns a part of s that takes at most max bytes when it is readable, and its length in s.
func cut(s string, max int, part func(string, int) string) (string, int) {
	for n := min(max, len(s)); ; n = max / 6 { // which fits: a byte takes six at most
		p := part(s, n)
		if r := readable(p); len(r) <= max {
			return r, len(p)
		}
	}
}

// headOf returns at most the first n bytes of s: up to the end of a line if one ends near, and never
// half of a character.
func headOf(s string, n int) string {
	if n >= len(s) {
		return s
	}
	if i := strings.LastIndexByte(s[:n], '\n'); i > n/2 {
		return s[:i+1]
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func tailOf(s string, n int) string {
	from := len(s) - n
	if from <= 0 {
		return s
	}
	if i := strings.IndexByte(s[from:], '\n'); i >= 0 && i < n/2 {
		return s[from+i+1:]
	}
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}

// readable shows what would act on a terminal, turn text around, is not UTF-8, or is not seen: models read, and obey, what
// is written in characters that no person sees.
func readable(s string) string {
	if !strings.ContainsFunc(s, acts) {
		return s
	}
	var b strings.Builder
	before := rune(0)
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
			r = 0
		case !acts(r), joins(r, before, s[i+utf8.RuneLen(r):]):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
			r = 0
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
			r = 0
		}
		before = r
	}
	return b.String()
}

// noText reports whether more than a tenth of s, or of the beginning of a long one, is no text.
func noText(s string) bool {
	all, bad := 0, 0
	for _, r := range s[:min(len(s), 4<<10)] {
		if all++; (r < 0xa0 || r == utf8.RuneError) && acts(r) && r != '\x1b' && r != '\b' {
			bad++
		}
	}
	return bad*10 > all
}

// acts reports whether a character does something, or is nothing that is seen: control and format characters, and what
// Unicode has nothing shown for.
func acts(r rune) bool {
	switch {
	case r < 0x7f:
		return r < ' ' && r != '\n' && r != '\t' && r != '\r'
	case r < 0xa0, r == utf8.RuneError, r == '\u2028', r == '\u2029':
		return true
	}
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// joins reports whether a character that is not seen is part of how the one before it is written: of an emoji, or of a
// letter of a script that joins its letters.
func joins(r, before rune, after string) bool {
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
	return joined(before) && joined(next)
}

func joined(r rune) bool {
	return unicode.In(r, unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati,
		unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala)
}
