package engine

import (
	"strings"
	"unicode"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// Longest is how many bytes of a text of others people are shown.
const Longest = 2000

// Plain makes one line of an engine's text.
func Plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, s[:min(len(s), Longest)])
	s = safetext.Line(strings.TrimSpace(s))
	return strings.ToValidUTF8(s[:min(len(s), Longest)], "")
}
