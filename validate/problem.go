package validate

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// Problem is an error in a script, or an oddity. The about tags are in the schemas of tools.
type Problem struct {
	Line   int    `json:"line" about:"The line, from 1; 0 is the whole code."`
	Column int    `json:"column" about:"The column, from 1."` // in characters
	Text   string `json:"text" about:"What is wrong." required:"true"`
	// Snippet has terminal controls replaced, and long lines cut around the position. It is "" if Line is 0.
	Snippet string `json:"snippet,omitempty" about:"The line with a caret under the place."`

	unsure bool // the interpreter may accept it
}

// Error is the error for a script that can't be run.
type Error struct {
	Name     string // as in the request
	Problems []Problem
}

// Error returns the problems with their places and snippets, on several lines.
func (e *Error) Error() string {
	var all []string
	for _, p := range e.Problems {
		all = append(all, p.format(e.Name))
	}
	return strings.Join(all, "\n")
}

func (p Problem) format(name string) string {
	name = escapeInvisible(name)
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

// problemAt returns a Problem without text for a byte offset.
func problemAt(source []byte, at int) Problem {
	at = min(max(at, 0), len(source))
	from := bytes.LastIndexByte(source[:at], '\n') + 1
	text, _, _ := bytes.Cut(source[from:], []byte("\n"))
	return problemInLine(1+bytes.Count(source[:at], []byte("\n")), string(text), at-from)
}

// snippetRadius is the number of characters of a line in a snippet before and after the place.
const snippetRadius = 60

// problemInLine returns a Problem without text for a byte offset in a line.
func problemInLine(line int, text string, at int) Problem {
	at = min(max(at, 0), len(text))
	p := Problem{Line: line, Column: utf8.RuneCountInString(text[:at]) + 1}
	// Characters have up to 4 bytes.
	before, after := []rune(text[max(0, at-8*snippetRadius):at]), []rune(text[at:min(len(text), at+8*snippetRadius)])
	head, tail := "", ""
	if len(before) > snippetRadius {
		head, before = "...", before[len(before)-snippetRadius:]
	}
	if len(after) > snippetRadius {
		tail, after = "...", after[:snippetRadius]
	}
	left := head + escapeInvisible(string(before))
	gutter := fmt.Sprintf("%5d | ", line)
	p.Snippet = gutter + left + escapeInvisible(string(after)) + tail + "\n" +
		strings.Repeat(" ", len(gutter)-2) + "| " + strings.Repeat(" ", terminalWidth(left)) + "^"
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

// escapeInvisible replaces characters without width, and those that change the display of the rest. An escape would
// look like part of the code.
func escapeInvisible(s string) string {
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

// terminalWidth counts columns of a terminal; East Asian letters and most emoji take two.
func terminalWidth(s string) (columns int) {
	for _, r := range s {
		switch {
		case unicode.Is(unicode.Mn, r):
		case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
			r >= 0xff01 && r <= 0xff60, r >= 0x1f300 && r <= 0x1faff:
			columns += 2
		default:
			columns++
		}
	}
	return columns
}
