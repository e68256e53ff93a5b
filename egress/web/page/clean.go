package page

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// Clean returns text without characters that deceive its reader: escape sequences and other control characters are
// written out, and invisible characters are left out, such as zero-width characters, bidi controls, and the tags and
// selectors in which whole messages have been hidden. It is UTF-8, and its lines end with \n.
func Clean(s string) string {
	if !strings.ContainsFunc(s, isDeceptive) && utf8.ValidString(s) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		switch {
		case !isDeceptive(r):
			b.WriteRune(r) // invalid UTF-8 is U+FFFD here
		case strings.ContainsRune("\r\f\v\u0085\u2028\u2029", r):
			b.WriteByte('\n')
		case unicode.Is(unicode.Cc, r):
			fmt.Fprintf(&b, `\x%02x`, r)
		}
	}
	return b.String()
}

// isDeceptive reports whether a character must be escaped or removed. Joiners stay: words of some languages, and many
// emoji, need them.
func isDeceptive(r rune) bool {
	switch r {
	case '\n', '\t', 0x200c, 0x200d, 0xfe0e, 0xfe0f:
		return false
	}
	return safetext.Hidden(r)
}

// SingleLine returns text in a single line of at most maxBytes.
func SingleLine(s string, maxBytes int) string {
	return safetext.Clip(strings.Join(strings.Fields(Clean(s)), " "), maxBytes)
}

// Cut returns a piece of text after offset bytes, of at most maxBytes, and the offset of the next piece, or 0. The
// piece ends at the end of a paragraph, a line or a word, if there is one in its last quarter, and never inside a
// character.
func Cut(text string, offset, maxBytes int) (piece string, next int) {
	if offset >= len(text) {
		return "", 0
	}
	offset = max(offset, 0)
	for offset > 0 && !utf8.RuneStart(text[offset]) {
		offset--
	}
	rest := text[offset:]
	if len(rest) <= maxBytes {
		return rest, 0
	}
	end := max(maxBytes, 1)
	for end > 0 && !utf8.RuneStart(rest[end]) {
		end--
	}
	if end == 0 { // a character longer than maxBytes
		_, end = utf8.DecodeRuneInString(rest)
	}
	for _, boundary := range []string{"\n\n", "\n", " "} {
		if i := strings.LastIndex(rest[:end], boundary); i >= end*3/4 {
			end = i + len(boundary)
			break
		}
	}
	if end == len(rest) {
		return rest, 0
	}
	return rest[:end], offset + end
}
