package config

import "strings"

// didYouMean returns ` (did you mean "x"?)` for the known word that is nearest, or "".
func didYouMean(word string, known []string) string {
	if near := Nearest(word, known); near != "" {
		return ` (did you mean "` + near + `"?)`
	}
	return ""
}

// Nearest returns the known word that word was probably meant to be, or "": one that differs in a
// third of its letters at most, or else one that contains word, or the longest that it contains.
func Nearest(word string, known []string) string {
	const longest = 64
	if len(word) > longest {
		return ""
	}
	word = strings.ToLower(strings.ReplaceAll(word, "-", "_"))
	best, fewest := "", len(word)/3+1
	for _, k := range known {
		if d := distance(word, k); d < fewest || d == 0 {
			best, fewest = k, d
		}
	}
	if best != "" || len(word) < 3 {
		return best
	}
	for _, k := range known {
		if strings.Contains(k, word) {
			return k
		}
		if len(k) >= 3 && len(k) > len(best) && strings.Contains(word, k) {
			best = k
		}
	}
	return best
}

// distance counts the letters to insert, remove, replace or swap with a neighbour on the way from
// a to b (optimal string alignment).
func distance(a, b string) int {
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
