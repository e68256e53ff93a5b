package validate

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// Problem is an error in a script, or an oddity. The tags named about stand in the schemas of tools.
type Problem struct {
	Line   int    `json:"line" about:"The line, from 1; 0 is the code as a whole."`
	Column int    `json:"column" about:"The column, from 1."` // in characters
	Text   string `json:"text" about:"What is wrong." required:"true"`
	// Snippet has what could drive a terminal replaced, and long lines are cut to the part around the place. It is ""
	// when Line is 0.
	Snippet string `json:"snippet,omitempty" about:"The line with a caret under the place."`

	unsure bool // the interpreter may not see it as a problem
}

// Error is the error for a script that can't be run.
type Error struct {
	Name     string // as it was sent
	Problems []Problem
}

// Error returns the problems with their places and snippets, on several lines.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.at(e.Name))
	}
	return b.String()
}

func (p Problem) at(name string) string {
	name = visible(name)
	switch {
	case p.Line == 0 && name == "":
		return p.Text
	case p.Line == 0:
		return name + ": " + p.Text
	case name == "":
		name = "script"
	}
	return fmt.Sprintf("%s:%d:%d: %s\n%s", name, p.Line, p.Column, p.Text, p.Snippet)
}

// place returns a Problem without text for a byte offset.
func place(source []byte, at int) Problem {
	line := 1 + bytes.Count(source[:at], []byte("\n"))
	from := bytes.LastIndexByte(source[:at], '\n') + 1
	text := source[from:]
	if n := bytes.IndexByte(text, '\n'); n >= 0 {
		text = text[:n]
	}
	return problem(line, string(text), at-from)
}

// around is the number of characters of a line in a snippet before and after the place.
const around = 60

// problem returns a Problem without text for a byte offset in a line.
func problem(line int, text string, at int) Problem {
	at = min(max(at, 0), len(text))
	before, after := text[:at], text[at:]
	p := Problem{Line: line, Column: utf8.RuneCountInString(before) + 1}
	left, right := lastRunes(before, around), firstRunes(after, around)
	head, tail := "", ""
	if len(left) < len(before) {
		head = "..."
	}
	if len(right) < len(after) {
		tail = "..."
	}
	left, right = head+visible(left), visible(right)+tail
	gutter := fmt.Sprintf("%5d | ", line)
	p.Snippet = gutter + left + right + "\n" +
		strings.Repeat(" ", len(gutter)-2) + "| " + strings.Repeat(" ", width(left)) + "^"
	return p
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func lastRunes(s string, n int) string {
	end := len(s)
	for ; n > 0 && end > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:end])
		end -= size
	}
	return s[end:]
}

// visible replaces each character of a line of code that has no width, or that changes how the rest is displayed. An
// escape would read as if it stood so in the code.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r == '\r' || r == '\n':
			return -1
		case safetext.Hidden(r), !unicode.IsPrint(r):
			return utf8.RuneError
		}
		return r
	}, s)
}

// width counts columns of a terminal; East Asian letters and most pictures take two.
func width(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.Is(unicode.Mn, r):
		case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
			r >= 0xff01 && r <= 0xff60, r >= 0x1f300 && r <= 0x1faff:
			n += 2
		default:
			n++
		}
	}
	return n
}
