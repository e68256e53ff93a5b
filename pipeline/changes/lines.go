package changes

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/validate/diff"
)

// maxText bounds the files whose lines are compared, in bytes.
const maxText = 8 << 20

// isBinary reports whether git treats a content as binary, or the content is too large to compare.
func isBinary(b []byte) bool {
	return len(b) > maxText || bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0
}

// edit replaces the lines a to aEnd of one text by the lines b to bEnd of another; lines count from 0.
type edit struct{ a, aEnd, b, bEnd int }

// edits returns the edits that change one text into another, in order.
func edits(before, after []byte) (all []edit) {
	text := diff.Unified("a", string(before), "b", string(after))
	var a, b int // the next lines
	changing := false
	for line := range strings.Lines(strings.TrimPrefix(text, "--- a\n+++ b\n")) {
		if line[0] == '-' || line[0] == '+' {
			if !changing {
				all = append(all, edit{a, a, b, b})
			}
			changing = true
		}
		switch line[0] {
		case '@':
			a, b, changing = firstLine(line, "-"), firstLine(line, "+"), false
		case ' ':
			a, b, changing = a+1, b+1, false
		case '-':
			a++
			all[len(all)-1].aEnd = a
		case '+':
			b++
			all[len(all)-1].bEnd = b
		}
	}
	return all
}

// firstLine returns the first line of a hunk "@@ -12,3 +14,2 @@" in one of the texts; lines count from 0.
func firstLine(hunk string, sign string) int {
	_, rest, _ := strings.Cut(hunk, sign)
	rest, _, _ = strings.Cut(rest, " ")
	first, count, several := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(first)
	if several && count == "0" {
		return n // of an empty range, git names the line before
	}
	return n - 1
}

func splitLines(b []byte) [][]byte {
	lines := bytes.SplitAfter(b, []byte{'\n'})
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// countLines returns how many lines were added and removed.
func countLines(before, after []byte) (added, removed int) {
	for _, e := range edits(before, after) {
		added += e.bEnd - e.b
		removed += e.aEnd - e.a
	}
	return added, removed
}
