package tokens

import (
	"bytes"
	"math"
	"slices"
)

// plausible reports whether a secret looks as if it had been drawn at random. The examples of manuals do not: they
// repeat one character, count up, or have a word of placeholders.
func plausible(t token) bool { return drawn(t.secret, 2.7) }

// drawn is plausible for secrets with so many bits per byte at least.
func drawn(s []byte, bits float64) bool {
	if entropy(s) < bits || regular(s) {
		return false
	}
	low := bytes.ToLower(s)
	return !slices.ContainsFunc(placeholders, func(word string) bool { return bytes.Contains(low, []byte(word)) })
}

// placeholders stand in no random text of this length, but once in some thousands.
var placeholders = []string{"example", "xxxx", "....", "****", "placeholder", "redacted", "dummy", "changeme", "your-", "your_", "yourtoken", "sandboxmcp_"}

// entropy returns the bits per byte that the frequencies of the bytes in s tell.
func entropy(s []byte) float64 {
	var counts [256]int
	for _, b := range s {
		counts[b]++
	}
	var bits float64
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// regular reports whether six bytes of s are the same, or eight follow each other as in 12345678.
func regular(s []byte) bool {
	same, up := 1, 1
	for i := 1; i < len(s); i++ {
		if same++; s[i] != s[i-1] {
			same = 1
		}
		if up++; s[i] != s[i-1]+1 {
			up = 1
		}
		if same >= 6 || up >= 8 {
			return true
		}
	}
	return false
}

// secretly reports whether t is plausible, and its name that of a secret, not of an id or a sum.
func secretly(t token) bool {
	name := bytes.ToLower(t.whole[:len(t.whole)-len(t.secret)])
	if bytes.Contains(name, []byte("public")) {
		return false
	}
	for _, word := range []string{"secret", "key", "token", "pass", "auth"} {
		if bytes.Contains(name, []byte(word)) {
			return plausible(t)
		}
	}
	return false
}
