package host

import (
	"path/filepath"
	"slices"
	"strings"
)

// Safe is the word that allows what changes nothing, and shows no file's content but what a repository below the directories
// that are allowed holds. host_file_read reads files, with the guarantees that it has.
const Safe = "@safe"

// bound are those whose operands are paths, and those that look around them: they stay below the directories.
var bound = []string{"ls", "stat", "du", "git"}

// pattern is how a program of Safe is shown.
func (g *Grammar) pattern() Pattern { return Pattern{g.Programs[:1], true} }

// harmless reports whether Safe has a command.
func (p *Policy) harmless(g *Grammar, args []string, dir string) bool {
	name := g.Programs[0]
	if _, lacks := g.lacks(args, true, true); lacks || !slices.Contains(bound, name) {
		return !lacks
	}
	if !p.holds(dir) {
		return false
	}
	if name == "git" { // its words are paths in the repository, or no paths
		// Git may take the words of diff for two files, which it compares by whatever links they go where it finds no repository. Two
		// commits can be compared as A..B.
		words := operands(args)
		return p.holdsRepository(dir) && (words[0] != "diff" || len(words) <= 2)
	}
	for _, word := range operands(args) {
		if !filepath.IsAbs(word) {
			word = filepath.Join(dir, word)
		}
		// A directory may be exchanged for a link after this: names and sizes would be seen, no contents.
		if real, err := filepath.EvalSymlinks(word); err != nil || !p.holds(real) {
			return false
		}
	}
	return true
}

// operands are the words that are no options, and those behind --.
func operands(args []string) (all []string) {
	for i, word := range args {
		if word == "--" {
			return append(all, args[i+1:]...)
		}
		if !strings.HasPrefix(word, "-") {
			all = append(all, word)
		}
	}
	return all
}
