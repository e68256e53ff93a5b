package event

import (
	"fmt"
	"slices"
	"strings"
)

// Known says whether there is an event of this name.
func Known(name string) bool { return slices.Contains(names[:], name) }

// Check returns an error for the first of kinds that is no event's name. It says which one was
// probably meant.
func Check(kinds []string) error {
	for _, kind := range kinds {
		if Known(kind) {
			continue
		}
		if near := nearest(kind); near != "" {
			return fmt.Errorf("there is no event %.40q (did you mean %q?)", kind, near)
		}
		return fmt.Errorf("there is no event %.40q; there are: %s", kind, strings.Join(names[:], " "))
	}
	return nil
}

// nearest is the name that differs from word in at most a third of its letters, or begins or ends
// with it, or "".
func nearest(word string) string {
	word = strings.ToLower(word)
	best, fewest := "", len(word)/3+1
	if len(word) < 3 || len(word) > 40 {
		return ""
	}
	for _, name := range names {
		if d := distance(word, name); d < fewest {
			best, fewest = name, d
		}
	}
	for _, name := range names {
		if best == "" && (strings.HasPrefix(name, word) || strings.HasSuffix(name, word)) {
			best = name
		}
	}
	return best
}

// distance counts the letters to insert, remove or replace on the way from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, corner+1)
		}
	}
	return row[len(b)]
}
