package pipeline

import (
	"regexp"
	"strings"
)

// cutMark is what a session's driver puts in the place of what it left out of a long text. A program can
// print the same, and hides nothing but its own words by it.
var cutMark = regexp.MustCompile(`\n\[(?:cut: \d+ bytes in all|\d+ (?:of \d+ |more )?(?:characters|bytes) are left out)\]`)

// cleanCut takes secrets out of a text that a session's driver may have cut, inside of the sandbox, where it
// knows none. What may be the first half of one goes from before each cut, and so does the rest of the line
// behind it, which may be the second.
func (r *run) cleanCut(text string) string {
	if len(r.leases) == 0 {
		return text
	}
	var out strings.Builder
	from := 0
	for _, at := range cutMark.FindAllStringIndex(text, -1) {
		out.WriteString(r.leases.RedactCut(text[from:at[0]]))
		out.WriteString(text[at[0]:at[1]])
		from = at[1]
		if tail, more := strings.CutPrefix(text[from:], "\n"); more {
			line, _, _ := strings.Cut(tail, "\n")
			from += len("\n") + len(line)
		}
	}
	out.WriteString(r.clean(text[from:]))
	return out.String()
}
