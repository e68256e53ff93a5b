// Package diff shows the changes from one text to another. rogpeppe/go-internal has Go's own implementation, which
// takes n log n time on any text.
package diff

import (
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// Unified returns the unified diff of two texts under these names, "" if they are the same.
func Unified(from, before, to, after string) string {
	parts := strings.SplitN(string(diff.Diff("", []byte(before), "", []byte(after))), "\n", 4)
	if len(parts) < 4 {
		return ""
	}
	return "--- " + from + "\n+++ " + to + "\n" + parts[3] // behind three lines of names
}
