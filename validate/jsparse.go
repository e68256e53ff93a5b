package validate

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/parser"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// jsTree is a script's tree, made by goja's parser: esbuild, which checks the syntax, exports no tree, and other
// parsers for Go know less of the language. goja knows no modules: import and export were replaced by blanks of the
// same length, and import(...) by jsImport(...), so that places stay the same.
type jsTree struct {
	body    []ast.Statement
	imports []jsImported
	base    int // the index of the source's first byte
}

// jsImported is a name that an import statement binds.
type jsImported struct {
	name string
	path string // "fs" or "fs.readFile"
}

// jsImport replaces import where import is an expression. Both have the same length.
const jsImport = "$imprt"

// maxRewrites bounds how often a source is parsed again: each export costs a parse.
const maxRewrites = 60

var errUnreadable = errors.New("our parser does not know all of its syntax")

// backtracks reports whether goja's parser may take long for a source: it reads the parameters of an arrow function
// twice, so that parameters with another arrow function in them double the time for each level; and it reports n*n
// errors for n labels of the same name. Arrow functions with plain parameters can't hold others, whatever strings and
// comments stand around them.
func backtracks(source []byte) bool {
	odd := 0
	for rest := source; ; {
		i := bytes.Index(rest, []byte("=>"))
		if i < 0 {
			break
		}
		if !simpleArrow(rest[:i]) {
			odd++
		}
		// Parameters that hold an arrow are cut here, so that they have no beginning and are not plain.
		rest = rest[i+2:]
	}
	return odd > 6 || bytes.Count(source, []byte(":")) > 600
}

// simpleArrow reports whether the source before an arrow ends in parameters without parentheses, text or comments in
// them.
func simpleArrow(before []byte) bool {
	before = bytes.TrimRight(before, " \t")
	if len(before) == 0 {
		return false
	}
	last := before[len(before)-1]
	if last != ')' {
		return last == '_' || last == '$' || last >= '0' && last <= '9' || last|0x20 >= 'a' && last|0x20 <= 'z'
	}
	for i := len(before) - 2; i >= 0; i-- {
		switch c := before[i]; {
		case c == '(':
			return true
		case c >= utf8.RuneSelf || bytes.IndexByte([]byte("\"'`/)\\#"), c) >= 0:
			return false
		}
	}
	return false
}

// parseJS returns the tree of a script or a module.
func parseJS(source string, module bool) (jsTree, error) {
	text := []byte(source)
	if bytes.HasPrefix(text, []byte("#!")) {
		copy(text, "//")
	}
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		copy(text, "   ")
	}
	var t jsTree
	t.head(text)
	wraps := []string{"(function(){", "(async function(){"}
	if module || len(t.imports) > 0 {
		wraps = wraps[1:]
	}
	for tries := 0; len(wraps) > 0 && tries < maxRewrites; tries++ {
		program, err := parser.ParseFile(nil, "", wraps[0]+string(text)+"\n})", parser.IgnoreRegExpErrors, parser.WithDisableSourceMaps)
		if err == nil {
			return t.in(program, len(wraps[0]))
		}
		at := errorAt(err, wraps[0]+string(text)) - len(wraps[0])
		if !t.rewrite(text, at) {
			wraps = wraps[1:]
		}
	}
	return t, errUnreadable
}

// in extracts the statements of the wrapped source from the function around them.
func (t jsTree) in(p *ast.Program, prefix int) (jsTree, error) {
	if len(p.Body) == 1 {
		if s, is := p.Body[0].(*ast.ExpressionStatement); is {
			if f, is := s.Expression.(*ast.FunctionLiteral); is {
				t.body, t.base = f.Body.List, 1+prefix
				return t, nil
			}
		}
	}
	return t, errUnreadable
}

// errorAt returns the byte offset of a parser's first complaint, -1 if that has none.
func errorAt(err error, text string) int {
	list, is := errors.AsType[parser.ErrorList](err)
	if !is || len(list) == 0 {
		return -1
	}
	line, at := list[0].Position.Line, 0
	for line > 1 && at < len(text) {
		r, n := utf8.DecodeRuneInString(text[at:])
		at += n
		switch {
		case r == '\r' && at < len(text) && text[at] == '\n':
		case r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029':
			line--
		}
	}
	return at + list[0].Position.Column - 1
}

// head blanks the imports at the head of a module, where most are.
func (t *jsTree) head(text []byte) {
	for {
		at := skipJS(text, 0)
		// Directives and empty statements may stand before.
		for at < len(text) && (text[at] == ';' || directive().Match(text[at:])) {
			_, at = tokenJS(text, at)
			at = skipJS(text, at)
		}
		if word, _ := tokenJS(text, at); word != "import" || !t.rewrite(text, at) {
			return
		}
		if bytes.HasPrefix(text[at:], []byte(jsImport)) {
			return
		}
	}
}

var directive = lazy.Regexp(`^("use [a-z ]+"|'use [a-z ]+')`)

// rewrite replaces syntax that goja does not know at a place, and reports whether there is such syntax.
func (t *jsTree) rewrite(text []byte, at int) bool {
	if at < 0 || at >= len(text) {
		return false
	}
	switch word, end := tokenJS(text, at); word {
	case "import":
		next, _ := tokenJS(text, end)
		if next == "(" || next == "." {
			copy(text[at:], jsImport)
			return true
		}
		return t.imported(text, at, end)
	case "export":
		return t.exported(text, at, end)
	case "await":
		if before := bytes.TrimRight(text[:at], " \t\r\n"); bytes.HasSuffix(before, []byte("for")) {
			blank(text[at:end])
			return true
		}
	}
	return false
}

// imported reads import a, {b as c}, * as d from "x" with {...};
func (t *jsTree) imported(text []byte, start, at int) bool {
	type pair struct{ name, member string }
	var names []pair
	word, at := tokenJS(text, at)
	for depth := 0; word != "" && !isString(word); {
		switch {
		case word == "{" || word == "}" || word == ",":
			depth += strings.Count(word, "{") - strings.Count(word, "}")
		case word == "from" && depth == 0:
		default:
			member, local := word, word
			if next, after := tokenJS(text, at); next == "as" {
				local, at = tokenJS(text, after)
			}
			if depth == 0 {
				member = ""
			}
			names = append(names, pair{local, strings.Trim(member, `"'`)})
		}
		var end int
		word, end = tokenJS(text, at)
		if depth > 0 && isString(word) { // import { "odd name" as x }
			word = "_"
		}
		at = end
	}
	if !isString(word) {
		return false
	}
	module := moduleName(strings.Trim(word, `"'`))
	for _, n := range names {
		t.imports = append(t.imports, jsImported{n.name, jsMember(module, n.member)})
	}
	blank(text[start:attributes(text, at)])
	return true
}

// attributes skips import attributes and a semicolon after the name of a module.
func attributes(text []byte, at int) int {
	word, end := tokenJS(text, at)
	if word == "with" || word == "assert" {
		if word, end = tokenJS(text, end); word == "{" {
			at = closing(text, end)
			word, end = tokenJS(text, at)
		}
	}
	if word == ";" {
		return end
	}
	return at
}

// closing returns the end of the braces that were opened before at.
func closing(text []byte, at int) int {
	for {
		word, end := tokenJS(text, at)
		if at = end; word == "" || word == "}" {
			return at
		}
	}
}

func (t *jsTree) exported(text []byte, start, at int) bool {
	word, end := tokenJS(text, at)
	switch word {
	case "":
		return false
	case "default":
		if named(text, end) {
			blank(text[start:end])
			return true
		}
		blank(text[start:end])
		copy(text[start:], "$exprt=")
	case "{":
		at = closing(text, end)
		if from, after := tokenJS(text, at); from == "from" {
			_, at = tokenJS(text, after)
		}
		blank(text[start:attributes(text, at)])
	case "*":
		for word != "" && !isString(word) {
			word, at = tokenJS(text, at)
		}
		blank(text[start:attributes(text, at)])
	default:
		blank(text[start:at])
	}
	return true
}

// named reports whether a declaration with a name follows.
func named(text []byte, at int) bool {
	word, at := tokenJS(text, at)
	if word == "async" {
		word, at = tokenJS(text, at)
	}
	if word != "function" && word != "class" {
		return false
	}
	name, at := tokenJS(text, at)
	if name == "*" {
		name, _ = tokenJS(text, at)
	}
	return name != "(" && name != "{" && name != "extends" && name != ""
}

// blank replaces all bytes but line ends by spaces.
func blank(text []byte) {
	for i, c := range text {
		if c != '\n' && c != '\r' {
			text[i] = ' '
		}
	}
}

func isString(word string) bool { return word != "" && (word[0] == '"' || word[0] == '\'') }

// skipJS returns the place of the next token.
func skipJS(text []byte, at int) int {
	for at < len(text) {
		rest := text[at:]
		switch {
		case bytes.IndexByte([]byte(" \t\r\n\v\f"), rest[0]) >= 0:
			at++
		case bytes.HasPrefix(rest, []byte("//")):
			if n := bytes.IndexAny(rest, "\r\n"); n >= 0 {
				at += n
			} else {
				at = len(text)
			}
		case bytes.HasPrefix(rest, []byte("/*")):
			n := bytes.Index(rest[2:], []byte("*/"))
			if n < 0 {
				return len(text)
			}
			at += n + 4
		case bytes.HasPrefix(rest, []byte("\u00a0")):
			at += 2
		default:
			return at
		}
	}
	return at
}

// tokenJS reads a word, a string or a single character, "" at the end. It reads the heads of statements that import and
// export, and no expressions.
func tokenJS(text []byte, at int) (token string, end int) {
	at = skipJS(text, at)
	if at >= len(text) {
		return "", at
	}
	if m := tokenAt().Find(text[at:min(len(text), at+4096)]); m != nil {
		return string(m), at + len(m)
	}
	return string(text[at : at+1]), at + 1
}

var tokenAt = lazy.Regexp(`^([\p{L}\p{N}_$\\]+|"(\\.|[^"\\])*"|'(\\.|[^'\\])*')`)

// moduleName returns a module's name as it is in rules.
func moduleName(name string) string {
	return strings.ReplaceAll(strings.TrimPrefix(name, "node:"), "/", ".")
}

// jsMember returns the path of a member. The default export of a module of Node is the module itself.
func jsMember(path, name string) string {
	switch {
	case name == "" || name == "default":
		return path
	case path == "":
		return name
	case globalObject().MatchString(path):
		return name
	}
	return path + "." + name
}

// globalObject matches the names of the global object.
var globalObject = lazy.Regexp(`^(globalThis|global|window|self|root)$`)
