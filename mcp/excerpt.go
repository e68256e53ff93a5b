package mcp

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// excerpt returns s if it takes no more than max bytes, or else its head and its tail with a line
// between that says how much is missing and where it is. That is in bytes of what is shown: what is
// not readable takes more than it has.
func excerpt(s string, max int, where string) string {
	if len(s) <= max {
		if r := readable(s); len(r) <= max {
			return r
		}
	}
	head, headLen := cut(s, max/2, beginningOf)
	tail, tailLen := cut(s[headLen:], max/2, tailOf)
	left := len(s) - headLen - tailLen
	return fmt.Sprintf("%s\n[... %d bytes left out here%s ...]\n%s", strings.TrimSuffix(head, "\n"), left, where, tail)
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

// beginningOf returns at most the first n bytes of s: up to the end of a line if one ends near, and never
// half of a character.
func beginningOf(s string, n int) string {
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

func clip(s string, max int) string { return safetext.Clip(s, max) }

// readable is text for a model.
func readable(s string) string { return safetext.Model(s) }

// noText reports whether more than a tenth of s, or of the beginning of a long one, is no text.
func noText(s string) bool {
	all, bad := 0, 0
	for _, r := range s[:min(len(s), 4<<10)] {
		if all++; r == utf8.RuneError || unicode.IsControl(r) && !strings.ContainsRune("\n\t\r\x1b\b", r) {
			bad++
		}
	}
	return bad*10 > all
}
