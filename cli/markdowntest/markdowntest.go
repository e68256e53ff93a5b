// Package markdowntest runs the console blocks of Markdown files and compares the documented output with the real one.
package markdowntest

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// Files calls f with each Markdown file below root, by its relative path.
func Files(t *testing.T, root string, f func(name string)) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		name, err := filepath.Rel(root, path)
		f(name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// block is a console block of a Markdown file.
type block struct {
	line     int // of its first command, from 1
	needs    []string
	indent   string // of a block in a list
	commands []*typedCommand
}

// typedCommand is a command of a block, with its documented output.
type typedCommand struct {
	text     string
	output   []string
	printed  []string // real output, or its replacement
	from, to int      // lines of the documented output
}

var needsComment = lazy.Regexp(`^<!-- needs: ([a-z, ]+) -->$`)

// blocks returns the console blocks of a file. They may be indented, as in a list.
func blocks(lines []string) (all []block) {
	var needs []string
	for i := 0; i < len(lines); i++ {
		l := strings.TrimSpace(lines[i])
		if m := needsComment().FindStringSubmatch(l); m != nil {
			needs = strings.Split(m[1], ", ")
			continue
		}
		if l != "```console" {
			needs = nil
			continue
		}
		indent := strings.TrimSuffix(lines[i], "```console")
		b := block{line: i + 2, needs: needs, indent: indent}
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
			l := strings.TrimPrefix(lines[i], indent)
			if text, prompt := strings.CutPrefix(l, "$ "); prompt {
				for isUnfinished(text) && i+1 < len(lines) {
					i++
					text += "\n" + strings.TrimPrefix(lines[i], indent)
				}
				b.commands = append(b.commands, &typedCommand{text: text, from: i + 1, to: i + 1})
			} else if n := len(b.commands); n > 0 {
				c := b.commands[n-1]
				c.output, c.printed, c.to = append(c.output, lines[i]), append(c.printed, lines[i]), i+1
			}
		}
		all, needs = append(all, b), nil
	}
	return all
}

// isUnfinished reports whether bash would read another line.
func isUnfinished(text string) bool {
	out, err := exec.Command("bash", "-n", "-c", text).CombinedOutput()
	return strings.HasSuffix(text, `\`) || err != nil && strings.Contains(string(out), "unexpected")
}
