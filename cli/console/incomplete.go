package console

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Incomplete reports whether the prompt of the language would ask for more lines. It is a heuristic: two empty lines in
// a row end any piece of code.
func Incomplete(language string, lines []string) bool {
	text := strings.Join(lines, "\n")
	if n := len(lines); strings.TrimSpace(text) == "" || n > 1 && strings.TrimSpace(lines[n-1]+lines[n-2]) == "" {
		return false
	}
	s := scan(language, text)
	switch language {
	case "shell":
		_, err := syntax.NewParser().Parse(strings.NewReader(text), "")
		return syntax.IsIncomplete(err) || strings.HasSuffix(text, "\\")
	case "python": // an empty line ends a block
		return s.depth > 0 || s.quote || strings.HasSuffix(text, "\\") || s.block && strings.TrimSpace(lines[len(lines)-1]) != ""
	}
	return s.depth > 0 || s.quote || s.trailing
}

// scanState is the state at the end of a text.
type scanState struct {
	depth    int  // open brackets
	quote    bool // in a string or comment of several lines
	trailing bool // ends with an operator that needs an operand
	block    bool // a line outside of brackets ends with a colon or begins with @ (Python)
}

// scan reads text like a lexer that knows only brackets, strings and comments.
func scan(language, text string) (s scanState) {
	last := byte('\n') // the last character outside of white space and comments
	begins := true     // at the beginning of a line, apart from white space
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\n':
			if language == "python" && s.depth == 0 && last == ':' {
				s.block = true
			}
			begins = true
			i++
			continue
		case c == ' ' || c == '\t' || c == '\r':
			i++
			continue
		case c == '#' && language != "node", strings.HasPrefix(text[i:], "//") && language == "node":
			if i = indexFrom(text, i, "\n"); i < 0 {
				i = len(text)
			}
			continue
		case strings.HasPrefix(text[i:], "/*") && language == "node":
			if i = indexFrom(text, i+2, "*/"); i < 0 {
				s.quote = true
				return s
			}
			i += 2
			continue
		case c == '"' || c == '\'' || c == '`' && language != "python":
			var closed bool
			if i, closed = skipQuoted(language, text, i); !closed {
				s.quote = true
				return s
			}
		case c == '/' && language == "node" && strings.IndexByte("\n(,=:[!&|?{};+-*%~^<>", last) >= 0:
			i = skipRegexp(text, i)
		default:
			switch c {
			case '(', '[', '{':
				s.depth++
			case ')', ']', '}':
				s.depth = max(0, s.depth-1)
			case '@':
				s.block = s.block || begins && s.depth == 0 && language == "python"
			}
			i++
		}
		last, begins = c, false
	}
	if language == "python" && s.depth == 0 && last == ':' {
		s.block = true
	}
	s.trailing = endsOpen(language, strings.TrimSpace(text), last)
	return s
}

// indexFrom returns the offset of the next of in text at or after from, or -1.
func indexFrom(text string, from int, of string) int {
	if i := strings.Index(text[from:], of); i >= 0 {
		return from + i
	}
	return -1
}

// skipQuoted returns the offset after the string that begins at i, and whether it is closed. If the language allows no line
// end in it, it counts as closed at the end of the line: the language reports the error.
func skipQuoted(language, text string, i int) (after int, closed bool) {
	mark := text[i : i+1]
	if three := strings.Repeat(mark, 3); language == "python" && strings.HasPrefix(text[i:], three) {
		mark = three
	}
	over := language == "r" || len(mark) == 3 || mark == "`"
	for j := i + len(mark); j < len(text); j++ {
		switch {
		case text[j] == '\\':
			j++
		case strings.HasPrefix(text[j:], mark):
			return j + len(mark), true
		case text[j] == '\n' && !over:
			return j, true
		}
	}
	return len(text), !over
}

// skipRegexp returns the offset after the regular expression that begins at i, or i+1 if the line does not close it, as
// for a division.
func skipRegexp(text string, i int) int {
	class := false
	for j := i + 1; j < len(text) && text[j] != '\n'; j++ {
		switch {
		case text[j] == '\\':
			j++
		case text[j] == '[':
			class = true
		case text[j] == ']':
			class = false
		case text[j] == '/' && !class:
			return j + 1
		}
	}
	return i + 1
}

// endsOpen reports whether code in JavaScript or R ends with an operator that needs another operand.
func endsOpen(language, text string, last byte) bool {
	switch language {
	case "node":
		return strings.IndexByte("=*%&|^,?:<.", last) >= 0 ||
			(last == '+' || last == '-') && !strings.HasSuffix(text, "++") && !strings.HasSuffix(text, "--") || last == '>' &&
			strings.HasSuffix(text, "=>")
	case "r":
		return strings.IndexByte("+-*/^,|&=~<!%", last) >= 0 && !strings.HasSuffix(text, "%%") || strings.HasSuffix(text, "|>")
	}
	return false
}
