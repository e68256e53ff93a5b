// Package plain writes out what text has in it that would deceive its reader: whoever reads a log reads
// words that others chose.
package plain

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s with everything that a terminal would obey, or that would change how the rest
// of a line reads, written out: control characters and escape sequences, bidi controls, invisible
// characters, and bytes that are no UTF-8.
func Text(s string) string {
	if strings.IndexFunc(s, Hidden) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\n':
			b.WriteString(`\n`)
		case Hidden(r) && r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case Hidden(r) && r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case Hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// Hidden reports whether r must not reach a reader as it is. Cf has the bidi controls, zero-width
// characters and tags; variation selectors and private use draw nothing, or anything.
func Hidden(r rune) bool {
	if r < 0x7f {
		return r < 0x20
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Variation_Selector)
}

// JSON does the same for JSON, within what JSON allows, so that its value stays.
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
