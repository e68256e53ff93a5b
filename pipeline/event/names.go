package event

import (
	"fmt"
	"slices"
	"strings"
)

// Known reports whether there is an event of this name.
func Known(name string) bool { return slices.Contains(names[:], name) }

// Check returns an error for the first of kinds that is no event's name. It says which one was
// probably meant.
func Check(kinds []string) error {
	for _, kind := range kinds {
		if Known(kind) {
			continue
		}
		if suggestion := nearest(kind, names[:]); suggestion != "" {
			return fmt.Errorf("there is no event %.40q (did you mean %q?)", kind, suggestion)
		}
		return fmt.Errorf("there is no event %.40q; there are: %s", kind, strings.Join(names[:], " "))
	}
	return nil
}

// rows are the kinds of rows that the audit log has and that are no events.
var rows = [...]string{
	"execution.refused", "execution.captured", "session.bridged", "limits.changed", "egress.revoked",
	"approval.requested", "approval.approved", "approval.denied", "approval.revoked",
	"vault.added", "vault.rotated", "vault.deleted", "vault.rekeyed", "key.created", "key.rotated", "key.revoked", "audit.sealed",
}

// Rows returns the kinds of rows that the audit log has: events, but for those that are only for watching, and more.
func Rows() []string {
	kinds := slices.DeleteFunc(Names(), func(name string) bool { return name == QueueBackpressure })
	return append(kinds, rows[:]...)
}

// CheckRows is Check for kinds of rows. Its error lists them all.
func CheckRows(kinds []string) error {
	all := Rows()
	for _, kind := range kinds {
		if slices.Contains(all, kind) {
			continue
		}
		meant := ""
		if suggestion := nearest(kind, all); suggestion != "" {
			meant = fmt.Sprintf(": did you mean %q?", suggestion)
		}
		return fmt.Errorf("there is no kind of row %.40q%s; there are: %s", kind, meant, strings.Join(all, " "))
	}
	return nil
}

// nearest is the name that differs from word in at most a third of its letters, or begins or ends
// with it, or "".
func nearest(word string, names []string) string {
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
