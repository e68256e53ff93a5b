package engine

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// Longest is how many bytes of a text of others people are shown.
const Longest = 2000

// Plain makes one line of an engine's text, without its hidden characters: what an engine writes is meant for a terminal.
func Plain(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case safetext.Hidden(r), r == utf8.RuneError:
			return -1
		}
		return r
	}, s[:min(len(s), Longest)]))
}
