package safetext

import "unicode/utf8"

// UnfinishedRune returns the number of bytes of an incomplete character at the end of b.
func UnfinishedRune(b []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		tail := b[len(b)-i:]
		switch {
		case !utf8.RuneStart(tail[0]):
		case utf8.FullRune(tail):
			return 0
		default:
			return i
		}
	}
	return 0
}
