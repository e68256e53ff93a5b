package host

import (
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
type Pattern struct {
	words    []token // the program first, without the last **
	variadic bool    // a last ** was there
}

const patternRemedy = `write the program and its words, such as "docker restart *": * is one word, a last ** any more`

// ParsePattern reads a pattern. Its error is a *Refusal.
func ParsePattern(text string) (Pattern, error) {
	tokens, err := lex(text, true)
	if err != nil {
		return Pattern{}, err
	}
	p := Pattern{words: tokens}
	if last := tokens[len(tokens)-1]; isDoubleStar(last) && len(tokens) > 1 {
		p.words, p.variadic = tokens[:len(tokens)-1], true
	}
	for i, t := range p.words {
		if i == 0 && (slices.ContainsFunc(t, isAny) || t.text() == "") {
			return Pattern{}, refuse(patternRemedy, "the pattern %q does not say which program", text)
		}
		for j := range t[1:] {
			if t[j].any && t[j+1].any {
				return Pattern{}, refuse(patternRemedy, "in the pattern %q, ** stands somewhere else than at the end", text)
			}
		}
	}
	return p, nil
}

// Exactly is the pattern that matches these words and no others.
func Exactly(w Words) Pattern {
	p := Pattern{words: make([]token, len(w))}
	for i, word := range w {
		p.words[i] = token{{text: word}}
	}
	return p
}

func isAny(p piece) bool { return p.any }

func isDoubleStar(t token) bool { return len(t) == 2 && t[0].any && t[1].any }

func (t token) text() (s string) {
	for _, p := range t {
		s += p.text
	}
	return s
}

// Program is the first word.
func (p Pattern) Program() string { return p.words[0].text() }

// String returns a pattern so that ParsePattern gives it back. Two patterns that match the same in the same way
// have the same string: it is what an approval is bound to.
func (p Pattern) String() string {
	var all []string
	for i, t := range p.words {
		word := ""
		for _, one := range t {
			if one.any {
				word += "*"
				continue
			}
			word += quote(one.text, i == 0)
		}
		if len(t) == 0 {
			word = "''"
		}
		all = append(all, word)
	}
	if p.variadic {
		all = append(all, "**")
	}
	return strings.Join(all, " ")
}

// fits reports whether the words after the program match. The program itself is compared by its file.
func (p Pattern) fits(args []string) bool {
	return p.each(args, token.matches)
}

// each reports whether there are as many args as words after the program, or more where ** allows that, and match
// holds for each word.
func (p Pattern) each(args []string, match func(token, string) bool) bool {
	own := p.words[1:]
	if len(args) < len(own) || len(args) > len(own) && !p.variadic {
		return false
	}
	for i, t := range own {
		if !match(t, args[i]) {
			return false
		}
	}
	return true
}

func (t token) matches(word string) bool {
	switch {
	case !slices.ContainsFunc(t, isAny):
		return word == t.text()
	case strings.HasPrefix(word, "-") && t[0].any: // or whoever allows names would allow options
		return false
	case len(t) == 1:
		return word != ""
	case slices.Contains(strings.Split(word, "/"), ".."):
		return false
	}
	return t.glob(word)
}

// glob matches a word with stars in it. Each star takes as little as it can, which is enough where all of them
// stand for the same.
func (t token) glob(word string) bool {
	first, last := t[0], t[len(t)-1]
	if !first.any {
		if !strings.HasPrefix(word, first.text) {
			return false
		}
		word, t = word[len(first.text):], t[1:]
	}
	tail := ""
	if !last.any {
		tail = last.text
		t = t[:len(t)-1]
	}
	for _, p := range t {
		if p.any {
			continue
		}
		i := strings.Index(word, p.text)
		if i < 0 || strings.Contains(word[:i], "/") {
			return false
		}
		word = word[i+len(p.text):]
	}
	middle, ok := strings.CutSuffix(word, tail)
	return ok && !strings.Contains(middle, "/")
}

// literal are the words after the program up to the first that has a star.
func (p Pattern) literal() (args []string, whole bool) {
	for _, t := range p.words[1:] {
		if slices.ContainsFunc(t, isAny) {
			return args, false
		}
		args = append(args, t.text())
	}
	return args, !p.variadic
}
