// Package spelling finds the known name for a misspelled word.
package spelling

import "strings"

const maxWord = 64 // bytes of a word: the time grows with it times the bytes of all names

// DidYouMean returns ` (did you mean "x"?)` for the nearest name, or "".
func DidYouMean(word string, names []string) string {
	if near := Nearest(word, names); near != "" {
		return ` (did you mean "` + near + `"?)`
	}
	return ""
}

// Nearest returns the most similar name, or "": one that differs in at most a third of its letters, or else one that
// contains word, or the longest that word contains. Case, dashes and underscores don't matter.
func Nearest(word string, names []string) string {
	if len(word) > maxWord {
		return ""
	}
	word = normalize(word)
	best, fewest := "", len(word)/3+1
	for _, name := range names {
		if d := Distance(word, normalize(name)); d < fewest {
			best, fewest = name, d
		}
	}
	if best != "" || len(word) < 3 {
		return best
	}
	for _, name := range names {
		p := normalize(name)
		if strings.Contains(p, word) {
			return name
		}
		if len(p) >= 3 && len(p) > len(best) && strings.Contains(word, p) {
			best = name
		}
	}
	return best
}

func normalize(name string) string { return strings.ToLower(strings.ReplaceAll(name, "-", "_")) }

// Distance counts the letters to insert, remove, replace or swap with a neighbour on the way from a to b (optimal
// string alignment).
func Distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
