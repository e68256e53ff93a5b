package validate

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"path"
	"sort"
	"strings"
	"sync"
	utf "unicode/utf16"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// inspectNode inspects JavaScript, and TypeScript, that runs under a name.
func (j job) inspectNode(name string) findings {
	printed, ok := printJS(string(j.Source), j.TypeScript)
	if !ok {
		return findings{Unread: unknownSyntax}
	}
	calls, whole := printed.calls()
	f := matchRules(Node, calls, 0)
	if !whole {
		f.Unread = incomplete
	}
	for i := range f.Hits {
		f.Hits[i].At = printed.sourceOffset(f.Hits[i].At)
	}
	f.Insert, f.Missing = len(jsPrelude().FindString(printed.source)), printed.missingModules(path.Ext(name) == ".mjs")
	for i := range f.Missing {
		f.Missing[i].At = printed.sourceOffset(f.Missing[i].At)
	}
	return f
}

// printedJS is JavaScript in esbuild's spelling, without types and templates, in which unbound names of freeNames start
// with freeName.
type printedJS struct {
	text, source string
	outline      string // text with blanked strings
	places       []mapping
	names        map[string]string // paths of imports
}

func printJS(source string, typescript bool) (p printedJS, ok bool) {
	o := api.TransformOptions{
		Loader: api.LoaderJS, Target: api.ESNext, Define: freeNames(),
		Sourcemap: api.SourceMapExternal, LegalComments: api.LegalCommentsNone,
		Supported: map[string]bool{"decorators": false, "using": false, "template-literal": false},
	}
	if typescript {
		o.Loader = api.LoaderTS
	}
	if !utf8.ValidString(source) { // esbuild hangs on some; keeps offsets
		source = strings.Map(func(r rune) rune {
			if r == utf8.RuneError {
				return '?'
			}
			return r
		}, source)
	}
	r := api.Transform(source, o)
	var m struct{ Mappings string }
	ok = len(r.Errors) == 0 && json.Unmarshal(r.Map, &m) == nil
	p = printedJS{text: string(r.Code), source: source, outline: outline(string(r.Code)), places: decodeMappings(m.Mappings, string(r.Code))}
	p.names = p.importedNames()
	return p, ok
}

// mapping is a byte offset of esbuild's output, with the line and the column, in UTF-16, of the source that it comes
// from.
type mapping struct{ at, line, column int }

// decodeMappings decodes a source map: up to five numbers for each position, as differences, in digits of 5 bits.
func decodeMappings(encoded, text string) (out []mapping) {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var sums [5]int
	begin, field, value, shift := 0, 0, 0, 0 // begin is the offset of a line
	for _, c := range []byte(encoded + ";") {
		digit := strings.IndexByte(digits, c)
		switch {
		case digit < 0: // , or ;
			if field >= 4 {
				out = append(out, mapping{begin + sums[0], sums[2], sums[3]})
			}
			if field = 0; c == ';' {
				begin, sums[0] = nextLine(text, begin), 0
			}
		case digit >= 32:
			value, shift = value|digit%32<<shift, shift+5
		default:
			value |= digit << shift
			sums[field%len(sums)] += value >> 1 * (1 - 2*(value&1))
			field, value, shift = field+1, 0, 0
		}
	}
	return out
}

// sourceOffset returns the offset in the source of an offset in the text.
func (p printedJS) sourceOffset(at int) int {
	i := sort.Search(len(p.places), func(i int) bool { return p.places[i].at > at })
	if i == 0 {
		return 0
	}
	offset := 0
	for range p.places[i-1].line {
		offset = nextLine(p.source, offset)
	}
	for column := p.places[i-1].column; column > 0 && offset < len(p.source); {
		r, n := utf8.DecodeRuneInString(p.source[offset:])
		offset += n
		column -= max(1, utf.RuneLen(r))
	}
	return offset
}

func nextLine(text string, at int) int {
	if n := strings.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(text)
}

// nodeImportsText lists names that scripts use without loading their modules. With a dot: a module, with the members
// that distinguish it from a variable of that name (none for any). Without: the functions and classes of a module that
// are used by their own names.
//
//go:embed nodeimports.txt
var nodeImportsText string

// nodeImports maps the beginnings of paths, "fs." and "path.join", and functions to their modules.
var nodeImports = sync.OnceValue(func() map[string]string {
	imports := map[string]string{}
	for line := range strings.Lines(nodeImportsText) {
		module, names, _ := strings.Cut(strings.TrimSpace(line), " ")
		module, isModule := strings.CutSuffix(module, ".")
		for _, name := range strings.Split(names, " ") { // at least one, possibly ""
			if isModule {
				name = module + "." + name
			}
			imports[name] = module
		}
	}
	return imports
})

// jsBound matches names that are set by hand, or looked at by typeof.
var jsBound = lazy.Regexp(`typeof \$free_([\w$]+)|\$free_([\w$]+) = `)

// missingModules returns the built-in modules that the program uses without loading them.
func (p printedJS) missingModules(module bool) []missingImport {
	var out []missingImport
	bound := map[string]bool{}
	for _, m := range jsBound().FindAllStringSubmatch(p.outline, -1) {
		bound[m[1]+m[2]] = true
	}
	for _, m := range jsChain().FindAllStringIndex(p.outline, -1) {
		name, free := strings.CutPrefix(p.outline[m[0]:m[1]], freeName)
		name, member, _ := strings.Cut(strings.ReplaceAll(strings.Split(name, ")")[0], "?", ""), ".")
		member = strings.Split(member, ".")[0]
		from, binds := cmp.Or(nodeImports()[name+"."+member], nodeImports()[name+"."]), name
		if member == "" || from == "" {
			from, binds = nodeImports()[name], "{ "+name+" }"
			if from != "" && !strings.HasPrefix(p.outline[m[1]:], "(") && !strings.HasSuffix(p.outline[:m[0]], " extends ") {
				continue
			}
		}
		if !free || from == "" || bound[name] {
			continue
		}
		statement := "const " + binds + ` = require("node:` + from + `");`
		if module {
			statement = "import " + binds + ` from "node:` + from + `";`
		}
		bound[name] = true
		out = append(out, missingImport{name, statement, m[0]})
	}
	return out
}

// jsPrelude matches the comments and directives at the start of a script, after which imports are added.
var jsPrelude = lazy.Regexp(`^\x{feff}?(?s:\s|#!.*?\n|//.*?(\n|$)|/\*.*?\*/|("use [^"\n]*"|'use [^'\n]*')[ \t]*;?)*`)
