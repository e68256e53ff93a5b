package signer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// note counts files with the same event.
type note struct {
	what  string
	first error // error of the first of them, if any
	count int
}

func (c *collector) countDropped(what string) {
	c.dropped++
	c.countNote(what, nil)
}

func (c *collector) countOverByteCap() {
	c.countDropped(fmt.Sprintf("over the cap of %d bytes", c.o.MaxBytes))
}

func (c *collector) countSkipped(what string, err error) {
	c.skipped++
	c.countNote(what, err)
}

func (c *collector) countUnreadable(err error) {
	c.countSkipped("could not be read", err)
}

func (c *collector) countNote(what string, err error) {
	i := slices.IndexFunc(c.notes, func(n note) bool { return n.what == what })
	if i < 0 {
		i, c.notes = len(c.notes), append(c.notes, note{what: what, first: err})
	}
	c.notes[i].count++
}

func (c *collector) manifest(skipped int) Manifest {
	slices.SortFunc(c.artifacts, func(a, b Artifact) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.SHA256, b.SHA256))
	})
	if skipped > 0 {
		c.notes = append(c.notes, note{what: "no regular files, or out of reach", count: skipped})
	}
	var why []string
	for _, n := range c.notes {
		text := fmt.Sprintf("%s: %d", n.what, n.count)
		if n.first != nil {
			text += fmt.Sprintf(" (first: %q)", c.o.Redact(WithoutPaths(n.first).Error()))
		}
		why = append(why, text)
	}
	return Manifest{
		Artifacts: c.artifacts,
		Skipped:   skipped + c.skipped,
		Dropped:   c.dropped,
		Why:       strings.Join(why, "; "),
	}
}
