package vault

import (
	"bytes"
	"slices"
	"strings"
)

const (
	minValue    = 6  // bytes; what is shorter occurs by chance
	minLine     = 16 // bytes; shorter lines of a longer value are often mere structure, like "}"
	minDistinct = 3  // different bytes; "--------" and "00000000" are drawings and zeros

	nodePrefix = 50 // bytes of a Buffer that Node's console shows: the beginning of a longer value

	maxOverlap = 32 // how often a value may overlap with itself; what does so more often is cut up
	pieceSize  = 64 // bytes of a piece then
)

// commonWords are values that people set, of minValue bytes or more, that text holds for other reasons.
var commonWords = []string{
	"0.0.0.0", "127.0.0.1", "application", "authorization", "bearer", "changeme", "database",
	"debugging", "default", "development", "disabled", "enabled", "environment", "example",
	"example.com", "localhost", "master", "nobody", "password", "postgres", "postgresql",
	"production", "public", "random", "redacted", "secret", "secrets", "server", "service",
	"staging", "string", "testing", "undefined", "unknown", "username", "version",
}

// redactableParts returns the parts of value to redact: value itself without the white space at its ends (programs strip a
// file's last newline), and, if it has several, its long lines, because programs print a key line by line, with other
// line ends, or indented. A line end may also be escaped as \n, which is how keys come in variables. The frame of a PEM
// key is no secret. A value that is not distinctive has no parts.
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

// pemEdges returns the first and last two lines of a value of several lines that is framed like a PEM key. So the frame is
// redacted with the key, also where only lines of the key are there, and stays where it is alone.
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

// isDistinctive reports whether text that contains v contains it because it is the secret.
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

// splitRepetitive returns v, or if it begins like "abcabcabc", the pieces that it consists of. In text made of
// such a value, the scan would be in the middle of it at many places at once, and take time for each;
// with short pieces there can't be many. The pieces overlap at the end rather than be too short.
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

// maxSelfOverlap returns at how many places at once text can be in the middle of v. It is the prefix
// function of Knuth, Morris and Pratt, with a count.
func maxSelfOverlap(v []byte) int {
	border := make([]int, len(v)+1) // of v[:i], the longest other beginning that it ends with
	count := make([]int, len(v)+1)  // how many such there are, itself among them
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
