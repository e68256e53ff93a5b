package validate

import (
	"path"
	"slices"
	"strings"
)

// Other prepares a script of a language that an operator has named, which has these extensions. An interpreter that begins a command line
// gets the script's name after it.
func Other(language string, extensions, interpreter []string, c Code) (Checked, error) {
	k := kind{language: language, extensions: extensions, interpreter: interpreter}
	out := Checked{Language: language, Interpreter: interpreter, Name: k.file(c.Name), Source: c.Source}
	if !slices.Contains(extensions, strings.ToLower(path.Ext(out.Name))) {
		out.Name += extensions[0]
	}
	warnings, bad := checkText(k, c.Source)
	if bad != nil {
		return Checked{}, &Error{Name: c.Name, Problems: []Problem{*bad}}
	}
	out.Warnings = warnings
	return out, nil
}

// Known reports whether a word is a language's name, or an extension of its files.
func Known(word string) bool {
	_, language := byLanguage(word)
	_, extension := byExtension("x" + word)
	return language || extension || word == Command
}
