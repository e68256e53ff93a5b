package host

import (
	"path/filepath"
	"slices"
	"strings"
)

// Grammar is what is known of a program's options: a pattern with a star, and Safe, allow a command of it only as far as
// it is in one of these forms. What is not listed is in none, so abbreviated, joined and new options are not, too. No form runs
// another program by a word of the command, or writes a file that no word names as one.
//
// A form is a subcommand, or a dot where the program has none, with its options:
//
//	-p         a letter, which may stand together with others: -pz
//	-n*        a letter with a value, which may be joined: -n5
//	-name      a word that begins with one dash, as find(1) has them; with a * its value is the next word
//	--oneline  a whole word
//	--since=*  a word that may have a value, joined by =
//
// A value in a word of its own is an operand to us: unlike the program, we look at it, and refuse it when it begins
// with a dash and is no option of the form.
type Grammar struct {
	Programs []string // names of the same program
	Forms    []string

	before  string                          // options that may stand before the subcommand
	safe    string                          // the forms of Safe
	operand func(form, word string) bool    // nil: any word
	every   func(first bool, w string) bool // likewise, of all words
}

// manyPrograms are files that are another program under each name.
var manyPrograms = []string{"busybox", "toybox", "coreutils"}

// grammarNamed is the grammar of a program of this name, nil if there is none.
func grammarNamed(name string) *Grammar {
	all := Grammars()
	if i := slices.IndexFunc(all, func(g Grammar) bool { return slices.Contains(g.Programs, name) }); i >= 0 {
		return &all[i]
	}
	return nil
}

// grammarOf is the grammar of the program that is found by its name. Another file of that name may be anything, and so
// may one that a link of that name leads to under another.
func (p *Policy) grammarOf(prog Program) *Grammar {
	name := filepath.Base(prog.Entry)
	g := grammarNamed(name)
	if found, err := p.Find(name); g == nil || err != nil || found.Entry != prog.Entry {
		return nil
	}
	for _, other := range prog.Names {
		known, _, _ := strings.Cut(other, ".") // which.debianutils
		if !slices.Contains(g.Programs, known) && !slices.Contains(manyPrograms, other) {
			return nil
		}
	}
	return g
}

// lacks returns the first word of args that no form has, and whether there is one. What is not whole is the beginning of
// a pattern. With safe, only the forms of Safe count.
func (g *Grammar) lacks(args []string, whole, safe bool) (string, bool) {
	for i, word := range args {
		if g.every != nil && !g.every(i == 0, word) {
			return word, true
		}
	}
	name := "."
	if !strings.HasPrefix(g.Forms[0], ".") {
		for before := optionsOf(g.before); len(args) > 0 && strings.HasPrefix(args[0], "-"); args = args[1:] {
			if !before.take(args[0]) {
				return args[0], true
			}
		}
		if len(args) == 0 {
			return "no subcommand", whole
		}
		name, args = args[0], args[1:]
	}
	if safe && !slices.Contains(strings.Fields(g.safe), name) {
		return name, true
	}
	for _, text := range g.Forms {
		if form, options, _ := strings.Cut(text, " "); form == name {
			return g.lacking(form, optionsOf(options), args)
		}
	}
	return name, true
}

func (g *Grammar) lacking(form string, options options, args []string) (string, bool) {
	ended := false
	for _, word := range args {
		switch {
		case word == "--" && !ended:
			ended = true
		case !ended && strings.HasPrefix(word, "-"):
			if !options.take(word) {
				return word, true
			}
		case g.operand != nil && !g.operand(form, word):
			return word, true
		}
	}
	return "", false
}

// options are those of a form, and whether they may have a joined value. Letters are without their dash.
type options map[string]bool

func optionsOf(text string) options {
	all := options{}
	for _, o := range strings.Fields(text) {
		name, valued := strings.CutSuffix(o, "*")
		switch {
		case strings.HasPrefix(o, "--"):
			all[strings.TrimSuffix(name, "=")] = valued
		case len(name) == 2:
			all[name[1:]] = valued
		default:
			all[name] = false
		}
	}
	return all
}

// take reports whether a word that begins with a dash is made of options.
func (o options) take(word string) bool {
	name, _, joined := strings.Cut(word, "=")
	if valued, ok := o[name]; ok && (valued || !joined) {
		return true
	}
	if strings.HasPrefix(word, "--") {
		return false
	}
	if valued, ok := o["n"]; ok && valued && strings.Trim(word[1:], "0123456789") == "" { // -5, which git log and tail know
		return true
	}
	for i := 1; i < len(word); i++ {
		valued, ok := o[word[i:i+1]]
		if !ok || valued {
			return ok
		}
	}
	return true // also -, which is standard input
}
