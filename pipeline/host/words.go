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

// Words are a command as the program gets it, the program first.
type Words []string

// Parse reads a command: plain words and quotes. Whatever else a shell would see in it is a *Refusal.
func Parse(text string) (Words, error) {
	words, err := lex(text, false)
	if err == nil && words[0] == "" {
		err = refuse("begin with the name of a program", "the program's name is empty")
	}
	return words, err
}

// Check returns an error that says what is wrong with words that nobody has parsed.
func (w Words) Check() error {
	_, err := Parse(w.String())
	return err
}

// String returns words so that Parse gives them back.
func (w Words) String() string { return Exactly(w).String() }

// star is what an unquoted * of a pattern becomes. No word has it: see printable.
const star = "\x00"

// lex splits a command, or with stars a pattern, which is the same but for unquoted stars. What is no letter, no quote
// and not known to be plain to all shells is refused, and not guessed.
func lex(text string, stars bool) (words []string, err error) {
	if err := printable(text); err != nil {
		return nil, err
	}
	var word strings.Builder
	var quote rune            // the one that is open
	begun, last := false, ' ' // whether there is a word, also an empty one, and what stands before, unquoted
	for _, r := range text + " " {
		switch {
		case r == quote:
			quote = 0
		case quote == '"' && strings.ContainsRune("$`\\", r):
			return nil, refuse("use single quotes, in which it is a character like others", "a %c in double quotes needs a shell, and there is none", r)
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

// expanded reports whether a shell would make something of an unquoted character. A ~ that is not where shells look for
// one is plain, as in HEAD~1, and so is a # within a word. In the first word, = sets a variable.
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

// printable refuses what people can't see or can take for something else.
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

// shellWords begin something else than a simple command when they are not quoted.
var shellWords = strings.Fields("if then elif else fi for while until do done case esac select function time coproc in declare typeset local export readonly nameref let")

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
