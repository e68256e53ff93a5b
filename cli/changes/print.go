package changes

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
)

// Colours of lines on a terminal.
const (
	red, green, plain = "\x1b[31m", "\x1b[32m", "\x1b[0m"
	collapsed         = 20 // a larger group of added or removed paths of one directory is one line
)

// PrintDiff prints a patch for people: with colours for added and removed lines on a terminal, and without any control
// sequences that a terminal would obey.
func PrintDiff(w io.Writer, patch string) error {
	colours := map[byte]string{'+': green, '-': red}
	var b strings.Builder
	for line := range strings.Lines(patch) {
		colour := colours[line[0]]
		writeLine(&b, safetext.Text(strings.TrimSuffix(line, "\n")), colour, w)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeLine(b *strings.Builder, line, colour string, w io.Writer) {
	if colour != "" && terminal.IsTerminal(w) {
		line = colour + line + plain
	}
	b.WriteString(line + "\n")
}

// PrintList prints the paths of a set, one a line: the kind of change, the number of lines, and why it is not applied.
func PrintList(w io.Writer, set changes.Set) error {
	var b strings.Builder
	for _, group := range set.Groups(collapsed) {
		e := group.Entries[0]
		line := terminal.Visible(group.String())
		switch {
		case len(group.Entries) > 1:
		case e.RenamedFrom != "":
			line += " (renamed from " + terminal.Visible(e.RenamedFrom) + ")"
		case e.Binary:
			line += " (binary)"
		case e.Added+e.Removed > 0:
			line += fmt.Sprintf(" +%d -%d", e.Added, e.Removed)
		}
		colour := ""
		for _, note := range []struct{ name, why string }{{"refused", e.Refused}, {"held back", e.Held}, {"note", e.Mark}} {
			if note.why != "" {
				line += "\n    " + note.name + ": " + terminal.Visible(note.why)
				colour = red
			}
		}
		if e.Stale {
			line += "\n    changed on this machine while the program ran"
			colour = red
		}
		writeLine(&b, line, colour, w)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Summary describes a stored change set in one line, with the commands for the next steps.
func Summary(set changes.Set) string {
	words := ""
	if here, err := os.Getwd(); err != nil || here != set.Dir {
		words += " " + set.ID
	}
	if set.Namespace != "default" {
		words += " --namespace " + set.Namespace
	}
	const verb = "sandboxmcp changes "
	return fmt.Sprintf("%s, stored as %s; review: %sshow%[4]s; apply: %[3]sapply%[4]s; drop: %[3]sdrop%[4]s", set.Counts, set.ID, verb, words)
}
