package vault

import (
	"bytes"
	"slices"
	"strings"
)

const (
	minValue    = 6  // bytes; shorter values occur by chance
	minLine     = 16 // bytes; shorter lines are often mere structure, like "}"
	minDistinct = 3  // different bytes; "--------" and "00000000" are drawings and zeros

	nodePrefix = 50 // bytes of a Buffer that Node's console prints, the start of a longer value

	maxOverlap = 32 // how often a value may overlap with itself before it is split
	pieceSize  = 64 // bytes of a piece of a split value
)

// commonWords are values that people set, of minValue bytes or more, and that occur in ordinary text.
var commonWords = []string{
	"0.0.0.0", "127.0.0.1", "application", "authorization", "bearer", "changeme", "database",
	"debugging", "default", "development", "disabled", "enabled", "environment", "example",
	"example.com", "localhost", "master", "nobody", "password", "postgres", "postgresql",
	"production", "public", "random", "redacted", "secret", "secrets", "server", "service",
	"staging", "string", "testing", "undefined", "unknown", "username", "version",
}

// redactableParts returns the parts of value to redact: value itself without the white space at its ends (programs
// strip a file's last newline), and, if it has several, its long lines, because programs print a key line by line, with
// other line ends, or indented. A line end may also be escaped as \n, which is how keys come in variables. The frame of
// a PEM key is not secret. A value that is not distinctive has no parts.
//
// The parts are copies.
func redactableParts(value []byte) [][]byte {
	whole := bytes.TrimSpace(value)
	if !isDistinctive(whole) {
		return nil
	}
	var parts [][]byte
	for _, piece := range splitRepetitive(whole) {
		parts = append(parts, bytes.Clone(piece))
	}
	if len(whole) > nodePrefix && isDistinctive(whole[:nodePrefix]) {
		parts = append(parts, bytes.Clone(whole[:nodePrefix]))
	}
	for _, line := range splitLines(whole) {
		if len(line) >= minLine && len(line) < len(whole) && isDistinctive(line) && !bytes.HasPrefix(line, []byte("-----")) {
			parts = append(parts, bytes.Clone(line))
		}
	}
	return parts
}

// pemEdges returns the first and last two lines of a value of several lines that is framed like a PEM key. With them,
// the frame is redacted together with any lines of the key, and stays where it is alone.
func pemEdges(value []byte) [][]byte {
	lines := splitLines(value)
	n := len(lines)
	if n < 3 || !bytes.HasPrefix(lines[0], []byte("-----")) || !bytes.HasPrefix(lines[n-1], []byte("-----")) {
		return nil
	}
	return [][]byte{bytes.Join(lines[:2], nil), bytes.Join(lines[n-2:], nil)}
}

// splitLines returns the lines of a value without white space at their ends. A line end may also be escaped.
func splitLines(value []byte) (lines [][]byte) {
	for line := range bytes.Lines(bytes.ReplaceAll(value, []byte(`\n`), []byte("\n"))) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// isDistinctive reports whether v is unlikely to occur in text by chance.
func isDistinctive(v []byte) bool {
	if len(v) < minValue || bytes.Contains([]byte(Mark), v) {
		return false
	}
	var seen []byte
	for _, c := range v {
		if len(seen) < minDistinct && !slices.Contains(seen, c) {
			seen = append(seen, c)
		}
	}
	return len(seen) == minDistinct &&
		!slices.ContainsFunc(commonWords, func(w string) bool { return strings.EqualFold(w, string(v)) })
}

// splitRepetitive returns v, or its pieces if it starts like "abcabcabc". In text made of such a value, the scan would
// follow many partial matches at once; short pieces bound their number. The last pieces overlap rather than be too
// short.
func splitRepetitive(v []byte) [][]byte {
	if len(v) <= pieceSize || maxSelfOverlap(v) <= maxOverlap {
		return [][]byte{v}
	}
	var all [][]byte
	for i := 0; i < len(v); i += pieceSize {
		from := min(i, len(v)-pieceSize)
		piece := v[from : from+pieceSize]
		if len(all) < 100 && slices.ContainsFunc(all, func(p []byte) bool { return bytes.Equal(p, piece) }) {
			continue // it repeats
		}
		all = append(all, piece)
	}
	return all
}

// maxSelfOverlap returns how many partial matches of v can be open at once: the prefix function of Knuth, Morris and
// Pratt, with a count.
func maxSelfOverlap(v []byte) int {
	border := make([]int, len(v)+1) // of v[:i], the longest proper prefix that is also a suffix
	count := make([]int, len(v)+1)  // the number of such prefixes, v[:i] included
	count[1] = 1
	maxCount := 1
	for i, k := 1, 0; i < len(v); i++ {
		for k > 0 && v[i] != v[k] {
			k = border[k]
		}
		if v[i] == v[k] {
			k++
		}
		border[i+1] = k
		count[i+1] = count[k] + 1
		maxCount = max(maxCount, count[i+1])
	}
	return maxCount
}
