package host

import (
	"path"
	"slices"
	"strings"
)

// Pattern is what commands are compared with, word by word:
//
//   - A word matches itself. The program's must be a name, or an absolute path.
//   - A word that is * matches any one word but an empty one and an option, which begins with a dash.
//   - A * in a word matches any characters but a slash, also none. Such a word matches no path with .. in it, and
//     no option unless it begins with a dash itself.
//   - A last ** matches any further words, options among them, also none.
//   - What is quoted matches only itself: '*' is a star.
//
// One with a star allows no more than the grammar of its program has, and is of use only where there is one.
type Pattern struct {
	words []string // the program first, without the last **
	rest  bool     // a last ** was there
}

// ParsePattern reads a pattern. Its error is a *Refusal.
func ParsePattern(text string) (Pattern, error) {
	const remedy = `write the program and its words, such as "docker restart *": * is one word, a last ** any more`
	words, err := lex(text, true)
	if err != nil {
		return Pattern{}, err
	}
	p := Pattern{words: words}
	if last := len(words) - 1; last > 0 && words[last] == star+star {
		p = Pattern{words[:last], true}
	}
	if p.words[0] == "" || strings.Contains(p.words[0], star) {
		return Pattern{}, refuse(remedy, "the pattern %q does not say which program", text)
	}
	if strings.Contains(strings.Join(p.words, " "), star+star) {
		return Pattern{}, refuse(remedy, "in the pattern %q, ** stands somewhere else than at the end", text)
	}
	return p, nil
}

// Exactly is the pattern that matches these words and no others.
func Exactly(w Words) Pattern { return Pattern{words: slices.Clone(w)} }

// Program is the first word.
func (p Pattern) Program() string { return p.words[0] }

// String returns a pattern so that ParsePattern gives it back. Two patterns that match the same in the same way
// have the same string: it is what an approval is bound to.
func (p Pattern) String() string {
	all := make([]string, len(p.words))
	for i, word := range p.words {
		parts := strings.Split(word, star)
		for j, text := range parts {
			if text != "" || word == "" {
				parts[j] = quote(text, i == 0)
			}
		}
		all[i] = strings.Join(parts, "*")
	}
	if p.rest {
		all = append(all, "**")
	}
	return strings.Join(all, " ")
}

// fixed are the words after the program up to the first with a star, and whether these are all.
func (p Pattern) fixed() (args []string, exact bool) {
	args = p.words[1:]
	if i := slices.IndexFunc(args, func(word string) bool { return strings.Contains(word, star) }); i >= 0 {
		return args[:i], false
	}
	return args, !p.rest
}

// fits reports whether the words after the program match. The program itself is compared by its file.
func (p Pattern) fits(args []string) bool { return p.each(args, allows) }

// each reports whether there are as many args as words after the program, or more where ** allows that, and match
// holds for each word.
func (p Pattern) each(args []string, match func(pattern, word string) bool) bool {
	own := p.words[1:]
	if len(args) < len(own) || len(args) > len(own) && !p.rest {
		return false
	}
	for i, one := range own {
		if !match(one, args[i]) {
			return false
		}
	}
	return true
}

// allows is how a word matches that a pattern allows.
func allows(pattern, word string) bool {
	switch {
	case !strings.Contains(pattern, star):
		return word == pattern
	case strings.HasPrefix(pattern, star) && strings.HasPrefix(word, "-"): // or whoever allows names would allow options
		return false
	case pattern == star:
		return word != ""
	}
	ok, _ := path.Match(glob.Replace(pattern), word)
	return ok && !slices.Contains(strings.Split(word, "/"), "..")
}

// blocks is how a word matches that a pattern blocks: a star is any characters.
func blocks(pattern, word string) bool {
	flat := func(text string) string { return strings.ReplaceAll(text, "/", "\n") }
	ok, _ := path.Match(flat(glob.Replace(pattern)), flat(word))
	return ok
}

// glob makes of a word what path.Match takes.
var glob = strings.NewReplacer(star, "*", "*", `\*`, "?", `\?`, "[", `\[`, `\`, `\\`)
