// Package validate checks whether a script can be run at all, before a sandbox is spent on it.
//
// Check refuses only scripts that their interpreter would refuse: against bad ideas there is containment. Analyze
// reports more, for people and for policies: missing imports, and patterns that deserve a thought. Neither runs any of
// the script.
//
// esbuild is the parser of JavaScript and TypeScript: those in Go that hand out a tree know less of the language, or no
// places. mvdan.cc/sh is the one of shell.
package validate

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

// MaxSource is the size of the longest script, in bytes. More is data, and belongs into a file.
const MaxSource = 10 << 20

// The languages, by the names that --language takes.
const (
	Python = "python"
	Node   = "node"
	Shell  = "shell"
	R      = "r"
	// Command is the language that Check gives a script whose first line names an interpreter of no language here:
	// "#!/usr/bin/perl".
	Command = "command"
)

// Code is a script in a request.
type Code struct {
	Language string // a language or one of its other names ("javascript", "bash"); "" goes by Name
	Name     string // a file name; only its last part counts, and it may be empty
	Source   []byte
}

// Checked is a script that is ready to run.
type Checked struct {
	Language string // Python, Node, Shell, R or Command
	// Interpreter is the interpreter, with its options, of a script whose first line tells its language: "sh", "-e". A
	// language's own is called by the language, or "bash". It is nil for other scripts.
	Interpreter []string
	// Name is a bare file name whose extension makes the interpreter read Source as it is meant:
	// script.ts becomes script.mjs, say. It is never empty.
	Name string
	// Source is the code as sent, byte for byte, except for TypeScript, which has become JavaScript with an inline
	// source map (node --enable-source-maps shows the lines of the original).
	Source []byte
	// Warnings are oddities that do not keep the script from running, or not for sure.
	Warnings []Problem
}

// Check prepares a script for its interpreter. A script that can't run is an *Error; the only other errors are ctx's.
//
// The syntax of Python and R is left to the interpreter that runs it, and costs nothing here; Analyze looks at it.
func Check(ctx context.Context, c Code) (Checked, error) {
	if err := ctx.Err(); err != nil {
		return Checked{}, err
	}
	kind, err := identify(c)
	if err != nil {
		return Checked{}, err
	}
	out, err := kind.prepare(c)
	if err == nil && (kind.language == Node || kind.language == Shell) {
		_, err = kind.parse(ctx, c.Name, &out, false)
	}
	if err != nil {
		return Checked{}, err
	}
	return out, nil
}

// prepare returns a script that is not parsed yet.
func (k kind) prepare(c Code) (Checked, error) {
	warnings, bad := checkText(k, c.Source)
	if bad != nil {
		return Checked{}, &Error{Name: c.Name, Problems: []Problem{*bad}}
	}
	return Checked{Language: k.language, Interpreter: k.interpreter, Name: k.scriptName(c.Name), Source: c.Source, Warnings: warnings}, nil
}

// parse checks the syntax of a script of Node or of a shell, and translates it. Errors have the name that it was given.
func (k kind) parse(ctx context.Context, name string, c *Checked, tree bool) (answer, error) {
	a, err := job{Name: c.Name, Source: c.Source, Language: k.language, TypeScript: k.typescript, Tree: tree}.parse(ctx)
	switch {
	case err != nil:
		return a, err
	case len(a.Problems) > 0 && !a.Unsure:
		return a, &Error{Name: name, Problems: a.Problems}
	case a.Source != nil:
		c.Source = a.Source
	}
	c.Name, c.Warnings = a.Name, append(c.Warnings, a.Problems...)
	return a, nil
}

// kind is a language, with the names that people and models use, and the file names that its interpreters distinguish.
type kind struct {
	language   string
	names      string
	extensions []string // the first one is given to names that have none of them
	typescript bool
	custom     bool // an operator has named it

	interpreter []string // see Checked
}

func kindByExtension(name string) (kind, bool) {
	ext := strings.ToLower(path.Ext(baseName(name)))
	return firstKind(func(k kind) bool { return slices.Contains(k.extensions, ext) })
}

func kindByLanguage(language string) (kind, bool) {
	return firstKind(func(k kind) bool { return hasWord(k.names, strings.ToLower(language)) })
}

// kinds are those that no operator has named.
var kinds = []kind{
	{language: Python, names: "python python3 py", extensions: []string{".py"}},
	{language: Node, names: "node nodejs javascript js", extensions: []string{".js", ".mjs", ".cjs"}},
	{language: Node, names: "typescript ts", extensions: []string{".ts", ".mts", ".cts"}, typescript: true},
	{language: Shell, names: "shell bash sh", extensions: []string{".sh", ".bash"}},
	{language: R, names: "r rscript", extensions: []string{".R", ".r"}},
}

func firstKind(is func(kind) bool) (kind, bool) {
	if i := slices.IndexFunc(kinds, is); i >= 0 {
		return kinds[i], true
	}
	return kind{}, false
}

func identify(c Code) (kind, error) {
	byName, named := kindByExtension(c.Name)
	if c.Language == "" {
		if k, ok := kindByShebang(c.Source); !named && ok {
			return k, nil
		} else if !named {
			return k, scriptError(c, unknownExtension(c.Name))
		}
		return byName, nil
	}
	k, known := kindByLanguage(c.Language)
	if !known {
		return k, scriptError(c, fmt.Sprintf("unknown language %.40q: use %s", c.Language, Languages))
	}
	// "node" says nothing about types: there the extension still counts.
	if named && byName.language == k.language && !k.typescript {
		return byName, nil
	}
	return k, nil
}

// scriptError returns the error for a script as a whole.
func scriptError(c Code, text string) error {
	return &Error{Name: c.Name, Problems: []Problem{{Text: text}}}
}

func unknownExtension(name string) string {
	const known = ".py .js .mjs .cjs .ts .mts .cts .sh .bash .R"
	if ext := path.Ext(baseName(name)); ext != "" {
		return fmt.Sprintf("no language is known for %.40q: say --language %s (known: %s), or begin it with a line such as #!/usr/bin/env perl", ext, Languages, known)
	}
	return "the name has no extension, and the script no first line such as #!/usr/bin/env python3, to tell the language by: say --language " + Languages
}

// baseName returns the last part of a path of any system.
func baseName(name string) string {
	return name[strings.LastIndexAny(name, `/\`)+1:]
}

// scriptName returns the file name of the script for its interpreter.
func (k kind) scriptName(name string) string {
	name = baseName(name)
	if name == "" || name == "-" || name == "." || name == ".." {
		name = "script"
	}
	strict := k.language == Node || k.custom // the others take any name
	if len(k.extensions) > 0 && (path.Ext(name) == "" || strict && !slices.Contains(k.extensions, strings.ToLower(path.Ext(name)))) {
		name += k.extensions[0]
	}
	return name
}

// checkText refuses files that are no script in any language, and warns of odd text.
func checkText(k kind, source []byte) (warnings []Problem, bad *Problem) {
	switch at := bytes.IndexByte(source, 0); {
	case len(source) == 0:
		return nil, &Problem{Text: "the script is empty"}
	case len(source) > MaxSource:
		return nil, &Problem{Text: fmt.Sprintf(
			"the script has %d bytes, more than %d MB: put data into a file beside it, and give that as an input", len(source), MaxSource>>20)}
	case bytes.HasPrefix(source, []byte("\xff\xfe")) || bytes.HasPrefix(source, []byte("\xfe\xff")):
		return nil, &Problem{Text: "the script is in UTF-16: save it as UTF-8"}
	case at >= 0:
		p := problemAt(source, at)
		p.Text = "a NUL byte: this is no script but binary data, or text in a wide encoding (save it as UTF-8)"
		return nil, &p
	}
	warnings, bad = checkEncoding(k, source)
	if k.language == Shell {
		warnings = append(warnings, warnCRLF(source)...)
	}
	return warnings, bad
}

// CheckCustom prepares a script of a language that an operator has named, which has these extensions. An interpreter that
// begins a command line gets the script's name after it.
func CheckCustom(language string, extensions, interpreter []string, c Code) (Checked, error) {
	return kind{language: language, extensions: extensions, interpreter: interpreter, custom: true}.prepare(c)
}
