// Package notebook translates notebook syntax: a Markdown fence around the code, and Python lines that start with ! or
// %.
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

// Translation returns Python code, for 3.8 and later, that defines translate(text, call=None), which returns the text
// with notebook lines replaced by calls, or None without such lines. Line numbers stay.
func Translation() string { return translate }

// Python returns Translation and the definition of notebook, which executes such lines. Translated code calls notebook
// as __notebook__, a name that the caller must add to builtins.
func Python() string { return translate + "\n\n" + magics }

// Unfence removes a Markdown fence around the whole code, and returns its language, or "". Line numbers stay.
func Unfence(code string) (inner, language string) {
	above := len(code) - len(strings.TrimLeft(code, " \t\r\n"))
	open, body, _ := strings.Cut(code[above:], "\n")
	marks := len(open) - len(strings.TrimLeft(open, "`"))
	if marks < 3 {
		return code, ""
	}
	lines := strings.Split(strings.TrimRight(body, " \t\r\n"), "\n")
	for i, line := range lines {
		if end := strings.TrimSpace(line); len(end) < marks || strings.Trim(end, "`") != "" {
			continue
		}
		if i < len(lines)-1 {
			return code, "" // several fences
		}
		language, _, _ = strings.Cut(strings.Trim(open[marks:], " \t\r{}."), " ")
		return strings.Repeat("\n", strings.Count(code[:above], "\n")+1) + strings.Join(lines[:i], "\n"), language
	}
	return code, ""
}
