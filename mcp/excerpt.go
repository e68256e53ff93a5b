package mcp

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// excerpt returns s if it has no more than max bytes, or else its head and its tail with a line
// between that says how much is missing and where it is.
func excerpt(s string, max int, where string) (shown string, whole bool) {
	if len(s) <= max {
		return readable(s), true
	}
	head, tail := s[:headEnd(s, max/2)], s[tailStart(s, len(s)-max/2):]
	left := len(s) - len(head) - len(tail)
	return fmt.Sprintf("%s\n[... %d bytes left out here%s ...]\n%s", strings.TrimSuffix(readable(head), "\n"), left, where, readable(tail)), false
}

// headEnd is where to cut at or before n: behind a line if one ends near, and never in a character.
func headEnd(s string, n int) int {
	if i := strings.LastIndexByte(s[:n], '\n'); i > n/2 {
		return i + 1
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

func tailStart(s string, n int) int {
	if i := strings.IndexByte(s[n:], '\n'); i >= 0 && i < (len(s)-n)/2 {
		return n + i + 1
	}
	for n < len(s) && !utf8.RuneStart(s[n]) {
		n++
	}
	return n
}

// readable shows what would act on a terminal, turn text around, or is not UTF-8.
func readable(s string) string {
	if !strings.ContainsFunc(s, acts) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case acts(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func acts(r rune) bool {
	if r == '\n' || r == '\t' || r == '\r' {
		return false
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError
}
