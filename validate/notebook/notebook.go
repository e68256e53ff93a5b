// Package notebook is what people and models write as they would in a notebook: a fence of Markdown around the code, and
// lines in Python that begin with ! or %.
package notebook

import (
	_ "embed"
	"strings"
)

var (
	//go:embed translate.py
	translate string
	//go:embed magics.py
	magics string
)

// Translation is Python, for 3.8 and later, that defines translate(text, call=None): text, which is no Python, with
// notebooks' lines made calls, or None if it has none. Lines stay where they are.
func Translation() string { return translate }

// Python is Translation, and notebook, which does what such lines say. What is translated calls it as __notebook__,
// which whoever runs that has to put into builtins.
func Python() string { return translate + "\n\n" + magics }

// Unfence takes away the fence of Markdown in which code stands as a whole, and returns the language that it names, ""
// for none. Lines keep their numbers.
func Unfence(code string) (inner, language string) {
	above := len(code) - len(strings.TrimLeft(code, " \t\r\n"))
	open, body, _ := strings.Cut(code[above:], "\n")
	marks := len(open) - len(strings.TrimLeft(open, "`"))
	if marks < 3 {
		return code, ""
	}
	lines := strings.Split(strings.TrimRight(body, " \t\r\n"), "\n")
	for i, line := range lines {
		end := strings.TrimSpace(line)
		if len(end) < marks || strings.Trim(end, "`") != "" {
			continue
		}
		if i < len(lines)-1 {
			return code, "" // there are several
		}
		language, _, _ = strings.Cut(strings.Trim(open[marks:], " \t\r{}."), " ")
		return strings.Repeat("\n", strings.Count(code[:above], "\n")+1) + strings.Join(lines[:i], "\n"), language
	}
	return code, ""
}
