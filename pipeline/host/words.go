package host

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// Bounds of one command.
const (
	maxBytes = 32 << 10
	maxWords = 1000
)

const (
	oneCommand = "send one command as words, such as: git status --short"
	quoteIt    = "put it in single quotes if it is meant as it stands, and send one command only, as words"
)

// Words are the words of a command, the program first.
type Words []string

// Parse parses a command of plain words and quotes. Any other shell syntax is a *Refusal.
func Parse(text string) (Words, error) {
	words, err := lex(text, false)
	if err == nil && words[0] == "" {
		err = refuse("begin with the name of a program", "the program's name is empty")
	}
	return words, err
}

// Check returns an error about invalid words that did not come from Parse.
func (w Words) Check() error {
	_, err := Parse(w.String())
	return err
}

// String formats words for Parse.
func (w Words) String() string { return Exactly(w).String() }

// star represents an unquoted * of a pattern. No word contains it: see printable.
const star = "\x00"

// lex splits a command, or with stars a pattern, which may also have unquoted stars. It refuses characters that are
// not letters, quotes or known to be plain in all shells.
func lex(text string, stars bool) (words []string, err error) {
	if err := printable(text); err != nil {
		return nil, err
	}
	var word strings.Builder
	var quote rune            // the open quote
	begun, last := false, ' ' // whether a word has begun, possibly empty; the previous unquoted character
	for _, r := range text + " " {
		switch {
		case r == quote:
			quote = 0
		case quote == '"' && strings.ContainsRune("$`\\", r):
			return nil, refuse("use single quotes, in which it is a character like others", "a %c in double quotes needs a shell, and there is none",
				r)
		case quote != 0:
			word.WriteRune(r)
		case r == ' ':
			if begun {
				words = append(words, word.String())
				word.Reset()
			}
			begun = false
		case r == '\'' || r == '"':
			begun, quote = true, r
		case stars && r == '*':
			begun = true
			word.WriteString(star)
		case expanded(r, last, !begun, len(words) == 0):
			return nil, refuse(quoteIt, "an unquoted %c there needs a shell, and there is none", r)
		default:
			begun = true
			word.WriteRune(r)
		}
		last = r
	}
	first, _, _ := strings.Cut(strings.TrimLeft(text, " "), " ")
	switch {
	case quote != 0:
		return nil, refuse(quoteIt, "a quote is not closed")
	case len(words) == 0:
		return nil, refuse(oneCommand, "there is no command")
	case len(words) > maxWords:
		return nil, refuse("leave some out", "the command has %d words, the maximum is %d", len(words), maxWords)
	case slices.Contains(shellWords, first):
		return nil, refuse(quoteIt, "%s is a word of shells, and there is none", first)
	}
	return words, nil
}

// expanded reports whether a shell would interpret an unquoted character. A ~ in other positions than shells expand
// is plain, as in HEAD~1, and so is a # within a word. In the first word, = sets a variable.
func expanded(r, last rune, begins, first bool) bool {
	switch r {
	case '#':
		return begins
	case '~':
		return begins || last == '=' || last == ':'
	case '=':
		return begins || first
	case '^':
		return begins && first
	}
	return strings.ContainsRune("|&;<>(){}[]?*!$`\\", r)
}

// printable refuses characters that are invisible or look like others.
func printable(text string) error {
	switch {
	case len(text) > maxBytes:
		return refuse("leave some out", "the command has %d bytes, the maximum is %d", len(text), maxBytes)
	case !utf8.ValidString(text):
		return refuse("send UTF-8", "the command is not UTF-8")
	}
	for _, r := range text {
		if safetext.Hidden(r) || r == '\u2800' || !unicode.IsPrint(r) {
			return refuse("leave it out, and send one line", "the command has the character %U, which nobody can see", r)
		}
	}
	return nil
}

const unquotedRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,@%+"

// shellWords start other syntax than a simple command if they are not quoted.
var shellWords = strings.Fields("if then elif else fi for while until do done case esac select function time coproc in declare typeset " +
	"local export readonly nameref let")

func quote(word string, first bool) string {
	plain := unquotedRunes
	if !first && !strings.HasPrefix(word, "=") {
		plain += "="
	}
	if word != "" && strings.Trim(word, plain) == "" && !(first && slices.Contains(shellWords, word)) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'"'"'`) + "'"
}
