package host

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// Bounds of one command.
const (
	maxBytes = 32 << 10
	maxWords = 1000
)

// Words are a command as the program gets it, the program first.
type Words []string

// Parse reads a command: plain words and quotes. Whatever else a shell would see in it is a *Refusal.
func Parse(text string) (Words, error) {
	tokens, err := lex(text, false)
	if err != nil {
		return nil, err
	}
	words := make(Words, len(tokens))
	for i, t := range tokens {
		for _, p := range t {
			words[i] += p.text
		}
	}
	if words[0] == "" {
		return nil, refuse("begin with the name of a program", "the program's name is empty")
	}
	return words, nil
}

// Check returns an error that says what is wrong with words that nobody has parsed.
func (w Words) Check() error {
	if len(w) == 0 || w[0] == "" {
		return refuse("begin with the name of a program", "%v", errEmpty)
	}
	_, err := Parse(w.String())
	return err
}

// String returns words so that Parse gives them back.
func (w Words) String() string {
	quoted := make([]string, len(w))
	for i, one := range w {
		quoted[i] = quote(one, i == 0)
	}
	return strings.Join(quoted, " ")
}

// piece is a part of a word: text, or in a pattern the star that stands for any.
type piece struct {
	text string
	any  bool
}

type token []piece

// lex splits a command, or with stars a pattern, which is the same but for unquoted stars.
func lex(text string, stars bool) ([]token, error) {
	if err := printable(text); err != nil {
		return nil, err
	}
	// Bash understands more than the others: what is syntax anywhere must be seen.
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, refuse(oneCommand, "this is no command that can be read: %s", strings.TrimPrefix(err.Error(), "1:"))
	}
	call, err := onlyCall(file)
	if err != nil {
		return nil, err
	}
	if len(call.Args) > maxWords {
		return nil, refuse("leave some out", "the command has %d words, and %d is the most", len(call.Args), maxWords)
	}
	tokens := make([]token, len(call.Args))
	for i, word := range call.Args {
		if tokens[i], err = parts(word.Parts, stars, i == 0); err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

const (
	oneCommand = "send one command as words, such as: git status --short"
	quoteIt    = "put it in single quotes if it is meant as it stands: there is no shell that would expand it"
)

// printable refuses what people can't see or can take for something else.
func printable(text string) error {
	switch {
	case len(text) > maxBytes:
		return refuse("leave some out", "the command has %d bytes, and %d is the most", len(text), maxBytes)
	case !utf8.ValidString(text):
		return refuse("send UTF-8", "the command is not UTF-8")
	case strings.ContainsAny(text, "\n\r"):
		return refuse(oneCommand, "the command has more than one line")
	}
	for _, r := range text {
		if safetext.Hidden(r) || r == '\u2800' || !unicode.IsPrint(r) {
			return refuse("leave it out", "the command has the character %U, which nobody can see", r)
		}
	}
	return nil
}

// onlyCall returns the one simple command that a line must be.
func onlyCall(file *syntax.File) (*syntax.CallExpr, error) {
	if len(file.Last) > 0 {
		return nil, refuse("leave it out, or quote the #", "the command has a comment")
	}
	if len(file.Stmts) == 0 {
		return nil, refuse(oneCommand, "%v", errEmpty)
	}
	s := file.Stmts[0]
	switch {
	case len(file.Stmts) > 1:
		return nil, refuse(oneCommand, "these are several commands")
	case len(s.Comments) > 0:
		return nil, refuse("leave it out, or quote the #", "the command has a comment")
	case len(s.Redirs) > 0:
		return nil, refuse("read its output from the result, and give its input as stdin", "redirections need a shell, and there is none")
	case s.Negated || s.Background || s.Coprocess || s.Disown || s.Semicolon.IsValid():
		return nil, refuse(oneCommand, "!, & and ; need a shell, and there is none")
	}
	call, ok := s.Cmd.(*syntax.CallExpr)
	switch {
	case !ok:
		return nil, refuse(oneCommand, "pipes, && and a shell's own words need a shell, and there is none")
	case len(call.Assigns) > 0:
		return nil, refuse("leave it out: the environment is the operator's (host.environment)", "a variable can't be set before a command")
	case len(call.Args) == 0:
		return nil, refuse(oneCommand, "%v", errEmpty)
	}
	return call, nil
}

// parts returns the pieces of one word. Those that are next to each other and no stars become one.
func parts(list []syntax.WordPart, stars, first bool) (t token, err error) {
	add := func(p piece) {
		n := len(t)
		switch {
		case n > 0 && !t[n-1].any && !p.any:
			t[n-1].text += p.text
		case !p.any && p.text == "" && len(list) > 1: // ''-x is -x
		default:
			t = append(t, p)
		}
	}
	for i, part := range list {
		switch part := part.(type) {
		case *syntax.Lit:
			if err := checkUnquoted(part.Value, stars, i == 0, first); err != nil {
				return nil, err
			}
			for j, text := range strings.Split(part.Value, "*") {
				if j > 0 {
					add(piece{any: true})
				}
				if text != "" {
					add(piece{text: text})
				}
			}
		case *syntax.SglQuoted:
			if part.Dollar {
				return nil, refuse(quoteIt, "$'...' needs a shell, and there is none")
			}
			add(piece{text: part.Value})
		case *syntax.DblQuoted:
			text, err := doubleQuoted(part)
			if err != nil {
				return nil, err
			}
			add(piece{text: text})
		default:
			return nil, refuse(quoteIt, "$, backquotes, process substitutions and the like need a shell, and there is none")
		}
	}
	if len(t) == 0 {
		t = token{{}}
	}
	return t, nil
}

func doubleQuoted(q *syntax.DblQuoted) (text string, err error) {
	if q.Dollar {
		return "", refuse(quoteIt, `$"..." needs a shell, and there is none`)
	}
	for _, part := range q.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			return "", refuse(quoteIt, "$ and backquotes need a shell, and there is none")
		}
		if strings.Contains(lit.Value, `\`) {
			return "", refuse("use single quotes, in which it is a character like others", `a backslash in double quotes is not understood`)
		}
		text += lit.Value
	}
	return text, nil
}

// checkUnquoted refuses what a shell would expand in unquoted text. A ~ that is not where shells look for one is plain,
// as in HEAD~1.
func checkUnquoted(text string, stars, begins, first bool) error {
	special := `?[]{}\!`
	if !stars {
		special += "*"
	}
	tilde := strings.HasPrefix(text, "~") && begins || strings.Contains(text, "=~") || strings.Contains(text, ":~")
	switch i := strings.IndexAny(text, special); {
	case i >= 0:
		return refuse(quoteIt, "an unquoted %c needs a shell, and there is none", text[i])
	case tilde:
		return refuse("write the whole path, or put it in single quotes", "an unquoted ~ needs a shell, and there is none")
	case begins && strings.HasPrefix(text, "="), begins && first && strings.HasPrefix(text, "^"):
		return refuse(quoteIt, "an unquoted %c at the beginning needs a shell, and there is none", text[0])
	}
	return nil
}

const unquotedRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,@%+"

// ownWords begin something else than a simple command when they are not quoted.
var ownWords = []string{"if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function",
	"time", "coproc", "in", "declare", "typeset", "local", "export", "readonly", "nameref", "let", "eval", "test"}

func quote(word string, first bool) string {
	switch {
	case word != "" && strings.Trim(word, unquotedRunes) == "" && !(first && slices.Contains(ownWords, word)):
		return word
	case !first && !strings.HasPrefix(word, "=") && word != "" && strings.Trim(word, unquotedRunes+"=") == "":
		return word
	case !strings.Contains(word, "'"):
		return "'" + word + "'"
	}
	return "'" + strings.ReplaceAll(word, "'", `'"'"'`) + "'"
}
