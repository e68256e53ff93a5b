package answer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// Bounds of the text about a run: clients pay for each word that a model reads.
const (
	MaxStreams   = 8 << 10 // bytes of stdout and stderr together
	maxStderr    = 3 << 10 // bytes of stderr, if stdout needs the room
	MaxBinary    = 256     // bytes of binary output: nobody reads more
	maxValue     = 4 << 10
	MaxTraceback = 6 << 10
	MaxEntries   = 20 // artifacts, hosts, packages
	maxRich      = 64 << 10
	MaxImage     = 4 << 20 // bytes of base64, of one image
	maxImages    = 8 << 20 // bytes of base64, of all images
)

// Excerpt returns s if its readable form fits into max bytes. Otherwise it returns head and tail, with a line between
// them that says how much is missing and where it is. Escapes make the readable form longer than s.
func Excerpt(s string, max int, where string) string {
	if len(s) <= max {
		if r := safetext.Model(s); len(r) <= max {
			return r
		}
	}
	head, headLen := cut(s, max/2, beginningOf)
	tail, tailLen := cut(s[headLen:], max/2, tailOf)
	left := len(s) - headLen - tailLen
	return fmt.Sprintf("%s\n[... %d bytes omitted%s ...]\n%s", strings.TrimSuffix(head, "\n"), left, where, tail)
}

// cut returns a part of s whose readable form fits into max bytes, and the part's length in s.
func cut(s string, max int, part func(string, int) string) (string, int) {
	for n := min(max, len(s)); ; n = max / 6 { // max/6 always fits: an escaped byte takes six
		p := part(s, n)
		if r := safetext.Model(p); len(r) <= max {
			return r, len(p)
		}
	}
}

// beginningOf returns at most the first n bytes of s. It ends at a newline if one is near, and never splits a
// character.
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

// LooksBinary reports whether more than a tenth of the beginning of s is binary.
func LooksBinary(s string) bool {
	all, bad := 0, 0
	for _, r := range s[:min(len(s), 4<<10)] {
		if all++; r == utf8.RuneError || unicode.IsControl(r) && !strings.ContainsRune("\n\t\r\x1b\b", r) {
			bad++
		}
	}
	return bad*10 > all
}

// OneLine returns readable text as one line.
func OneLine(s string) string { return strings.Join(strings.Fields(safetext.Model(s)), " ") }

// Count returns a number with its noun, in singular or plural.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Size formats a number of bytes for people.
func Size(n int64) string {
	switch {
	case n < 1000:
		return Count(int(n), "byte")
	case n < 1000*1000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1000*1000*1000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
