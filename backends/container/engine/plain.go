package engine

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Longest is how many bytes of a text of others people are shown.
const Longest = 2000

// Plain makes one line of text of others, without what could speak to a terminal or turn it around: control
// characters, and invisible ones.
func Plain(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r) && r != utf8.RuneError:
			return r
		}
		return -1
	}, s[:min(len(s), Longest)]))
}
