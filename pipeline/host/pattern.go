package host

import (
	"slices"
	"strings"
)

// Pattern matches commands, word by word:
//
//   - A word matches itself. The program must be a name, or an absolute path.
//   - A * matches one word that is not empty, does not begin with a dash or an @, and contains no =: so it is not an
//     option, a file of options or a setting.
//   - A last ** matches any number of further such words.
//   - Quoted text matches only itself: '*' is a star.
//
// In a blocking pattern, a star matches any word.
type Pattern struct {
	words []string // the program first, without the last **
	rest  bool     // it ends with **
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
	if slices.ContainsFunc(p.words, func(word string) bool { return word != star && strings.Contains(word, star) }) {
		return Pattern{}, refuse(remedy, "in the pattern %q, a star is a part of a word, or ** stands somewhere else than at the end", text)
	}
	return p, nil
}

// Exactly returns the pattern that matches only these words.
func Exactly(w Words) Pattern { return Pattern{words: slices.Clone(w)} }

// Program returns the first word.
func (p Pattern) Program() string { return p.words[0] }

// String formats a pattern for ParsePattern. Equivalent patterns have the same string: approvals are bound to it.
func (p Pattern) String() string {
	all := make([]string, len(p.words))
	for i, word := range p.words {
		if all[i] = "*"; word != star {
			all[i] = quote(word, i == 0)
		}
	}
	if p.rest {
		all = append(all, "**")
	}
	return strings.Join(all, " ")
}

// fixed returns the words between the program and the first star, and whether these are all.
func (p Pattern) fixed() (args []string, exact bool) {
	args = p.words[1:]
	if i := slices.Index(args, star); i >= 0 {
		return args[:i], false
	}
	return args, !p.rest
}

// matches reports whether the words after the program match. The program itself is compared by its file.
func (p Pattern) matches(args []string) bool { return p.each(args, isPlainWord) }

// blocks reports whether a blocking pattern matches the words after the program.
func (p Pattern) blocks(args []string) bool { return p.each(args, func(string) bool { return true }) }

// each reports whether args match the words after the program, and may accepts each word that a star matches.
func (p Pattern) each(args []string, may func(word string) bool) bool {
	own := p.words[1:]
	if len(args) < len(own) || len(args) > len(own) && !p.rest {
		return false
	}
	for i, word := range args {
		if starred := i >= len(own) || own[i] == star; starred && !may(word) || !starred && own[i] != word {
			return false
		}
	}
	return true
}

// isPlainWord reports whether a star of an allowed pattern may stand for a word.
func isPlainWord(word string) bool {
	return word != "" && !strings.ContainsAny(word[:1], "-@") && !strings.Contains(word, "=")
}
