// Package validate checks scripts before they run in a sandbox.
//
// Check refuses only scripts that their interpreter would refuse; containment protects against the rest. Analyze also
// reports missing imports and dangerous patterns, for people and policies. Neither runs the script.
//
// esbuild parses JavaScript and TypeScript: Go parsers that return a tree support less of the language, or have no
// positions. mvdan.cc/sh parses shell.
package validate

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

// MaxSource is the size of the longest script, in bytes. Larger data belong in a file.
const MaxSource = 10 << 20

// The languages, by the names that --language takes.
const (
	Python = "python"
	Node   = "node"
	Shell  = "shell"
	R      = "r"
	// Command is the language of a script whose first line names an unknown interpreter: "#!/usr/bin/perl".
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
	// Name is a bare file name whose extension makes the interpreter parse Source correctly: for example, script.ts
	// becomes script.mjs. It is never empty.
	Name string
	// Source is the code byte for byte, except for TypeScript, which is translated to JavaScript with an inline source map
	// (node --enable-source-maps shows the lines of the original).
	Source []byte
	// Warnings are oddities that do not, or not certainly, prevent the script from running.
	Warnings []Problem
}

// Check prepares a script for its interpreter. A script that can't run is an *Error; the only other errors are ctx's.
//
// It does not check the syntax of Python and R, which the interpreter does; Analyze checks Python's.
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

// prepare returns a script before parsing.
func (k kind) prepare(c Code) (Checked, error) {
	warnings, bad := checkText(k, c.Source)
	if bad != nil {
		return Checked{}, &Error{Name: c.Name, Problems: []Problem{*bad}}
	}
	return Checked{Language: k.language, Interpreter: k.interpreter, Name: k.scriptName(c.Name), Source: c.Source, Warnings: warnings}, nil
}

// parse checks the syntax of a script of Node or of a shell, and translates it. Errors have the name in the request.
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
	extensions []string // the first one is added to names without any
	typescript bool
	custom     bool // configured by the operator

	interpreter []string // see Checked
}

func kindByExtension(name string) (kind, bool) {
	ext := strings.ToLower(path.Ext(baseName(name)))
	return firstKind(func(k kind) bool { return slices.Contains(k.extensions, ext) })
}

func kindByLanguage(language string) (kind, bool) {
	return firstKind(func(k kind) bool { return hasWord(k.names, strings.ToLower(language)) })
}

// kinds are the built-in languages.
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
	// "node" does not exclude TypeScript: the extension decides.
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
		return fmt.Sprintf("no language is known for %.40q: use --language %s (known: %s), or begin it with a line such as #!/usr/bin/env perl",
			ext, Languages, known)
	}
	return "the language is unknown: the name has no extension, and the script no first line such as #!/usr/bin/env python3: give " +
		"--language " + Languages
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
	strict := k.language == Node || k.custom // other interpreters accept any name
	if len(k.extensions) > 0 && (path.Ext(name) == "" || strict && !slices.Contains(k.extensions, strings.ToLower(path.Ext(name)))) {
		name += k.extensions[0]
	}
	return name
}

// checkText refuses files that are not scripts in any language, and warns of odd text.
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
		p.Text = "a NUL byte: this is binary data, or text in a wide encoding, not a script (save it as UTF-8)"
		return nil, &p
	}
	warnings, bad = checkEncoding(k, source)
	if k.language == Shell {
		warnings = append(warnings, warnCRLF(source)...)
	}
	return warnings, bad
}

// CheckCustom prepares a script of an operator-defined language with these extensions. The interpreter is a command
// line, to which the script's name is appended.
func CheckCustom(language string, extensions, interpreter []string, c Code) (Checked, error) {
	return kind{language: language, extensions: extensions, interpreter: interpreter, custom: true}.prepare(c)
}
