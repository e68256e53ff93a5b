// Package safetext escapes characters that would deceive the reader of a text: a terminal, a person, or a model, which
// obeys characters that people don't see.
package safetext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns s as part of one line of a terminal or a log: line ends, tabs, hidden characters and bytes that are not
// UTF-8 are written out, so that different texts stay different.
func Line(s string) string {
	return escapeExcept(s, func(r rune) bool { return !Hidden(r) })
}

// Text returns s as text of several lines for a terminal: Line, but line feeds and tabs stay.
func Text(s string) string {
	return escapeExcept(s, func(r rune) bool { return !Hidden(r) || r == '\n' || r == '\t' })
}

func escapeExcept(s string, stays func(rune) bool) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !stays(r) }) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case stays(r):
			b.WriteRune(r)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\n':
			b.WriteString(`\n`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			escape(&b, r)
		}
	}
	return b.String()
}

func escape(b *strings.Builder, r rune) {
	if r > 0xffff {
		fmt.Fprintf(b, `\U%08x`, r)
		return
	}
	fmt.Fprintf(b, `\u%04x`, r)
}

// Clip returns the beginning of s, at most max bytes of it with "..." behind, never half of a character.
func Clip(s string, max int) string {
	if len(s) <= max {
		return s
	}
	n := max
	for n > max-utf8.UTFMax && n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// Hidden reports whether r controls a terminal or is invisible, so that it must be escaped: control
// characters (Cc); format characters (Cf), such as bidi controls, zero-width characters and the tags at U+E0000; the
// separators U+2028 and U+2029; variation selectors; fillers, and all else that Unicode wants ignored where it can't be
// shown; private use (Co) and noncharacters, which show nothing, or anything. The Arabic and Syriac signs that enclose
// a number are format characters, but seen. Spaces are not hidden, however wide; neither is the empty braille cell, of
// which plots are made.
func Hidden(r rune) bool {
	if r < 0x7f {
		return r < 0x20
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Variation_Selector,
		unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// JSON replaces hidden characters in JSON by JSON escapes, which keeps the value.
func JSON(b []byte) []byte {
	s := string(b)
	if strings.IndexFunc(s, Hidden) < 0 {
		return b
	}
	var out strings.Builder
	for _, r := range s {
		switch {
		case !Hidden(r) || r == '\n' || r == '\t':
			out.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return []byte(out.String())
}
