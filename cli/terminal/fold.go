package terminal

import (
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

var (
	// pair is a line of two columns: a flag or a word, two blanks, and its meaning.
	pair = lazy.Regexp(`^( +\S.*?  +)(\S.*)$`)
	// prose is a line of a description; examples, lists and code are indented more.
	prose = lazy.Regexp(`^   [^ ]`)
)

// Fold wraps the lines of a help at that many columns; 0 does not wrap. Examples stay whole, since they are copied.
func Fold(help string, columns int) string {
	if columns == 0 || help == "" {
		return help
	}
	var out, paragraph []string
	section := ""
	end := func() {
		out = append(out, foldWords("   ", "   ", strings.Join(paragraph, " "), columns)...)
		paragraph = nil
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(help, "\n"), "\n") {
		described := section == "DESCRIPTION:"
		if described && prose().MatchString(line) && !strings.HasPrefix(line, "   Example") {
			paragraph = append(paragraph, line[3:])
			continue
		}
		if end(); line != "" && line[0] != ' ' {
			section = line
		}
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		switch m := pair().FindStringSubmatch(line); {
		case len(line) <= columns && !(section == "OPTIONS:" && hasWideOptions(help, columns)), described && m == nil:
			out = append(out, line)
		case m != nil && len(m[1]) > columns/2:
			out = append(out, foldWords(indent, indent+"  ", m[1], columns)...)
			out = append(out, foldWords(indent+"    ", indent+"    ", m[2], columns)...)
		case m != nil:
			out = append(out, foldWords(m[1], strings.Repeat(" ", len(m[1])), m[2], columns)...)
		default:
			out = append(out, foldWords(indent, indent+"  ", line[len(indent):], columns)...)
		}
	}
	end()
	return strings.Join(out, "\n") + "\n"
}

// hasWideOptions reports whether the options leave less than half of the columns for their descriptions.
func hasWideOptions(help string, columns int) bool {
	_, options, _ := strings.Cut(help, "\nOPTIONS:\n")
	m := pair().FindStringSubmatch(strings.SplitN(options, "\n", 2)[0])
	return m != nil && len(m[1]) > columns/2
}

// foldWords wraps text at blanks into lines of at most that many columns: the first line begins with first, the others
// with next. A longer word is not broken.
func foldWords(first, next, text string, columns int) (lines []string) {
	line := first
	for word := range strings.FieldsSeq(text) {
		switch {
		case strings.TrimSpace(line) == "" || strings.HasSuffix(line, "  "):
			line += word
		case len(line)+1+len(word) > columns:
			lines, line = append(lines, line), next+word
		default:
			line += " " + word
		}
	}
	if text != "" {
		lines = append(lines, line)
	}
	return lines
}
