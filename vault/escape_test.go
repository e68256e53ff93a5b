package vault

import (
	"math/rand/v2"
	"testing"
)

// levelByLevel reads the character at index i like decode, but level by level and without shortcuts.
func levelByLevel(e escaped, i, level int) (char, int) {
	if level == 0 {
		return e.rawByte(i)
	}
	c, n := levelByLevel(e, i, level-1)
	to, size := c, 0
	switch c {
	case '\\':
		to, size = e.decodeBackslash(i+n, level-1)
	case '%':
		to, size = e.decodePercent(i+n, level-1)
	case '&':
		to, size = e.decodeEntity(i+n, level-1)
	default:
		return c, n
	}
	switch {
	case to == needMore:
		return needMore, 0
	case to == endOfText && c == '\\':
		return noChar, n
	case to == endOfText:
		return c, n
	}
	return to, n + size
}

// TestLevels: nested escapes are read the same as level by level, wherever they are.
func TestLevels(t *testing.T) {
	parts := []string{`\`, `\\`, "%", "%25", "&", "&amp;", "&#", "&#x", "#", ";", "x", "u", "u{", "{", "}", "5c", "005c", "26", "0026",
		"amp", "x26", "u0026", "D83D", "DE00", "134", "n", "_", " ", "\n", "\x00", "\u00ad", "\u200b", "\xe2\x80", "é", "sort=",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
	r := rand.New(rand.NewPCG(5, 6))
	for range 200_000 {
		var text []byte
		for range 1 + r.IntN(7) {
			text = append(text, parts[r.IntN(len(parts))]...)
		}
		e := escaped{text, r.IntN(2) == 0}
		i, level := r.IntN(len(text)), r.IntN(maxLevels+1)
		c, n := e.decode(i, level)
		if want, size := levelByLevel(e, i, level); c != want || n != size {
			t.Fatalf("%q (last %v) at %d, level %d: got %#x of %d bytes, want %#x of %d", text, e.last, i, level, c, n, want, size)
		}
	}
}
