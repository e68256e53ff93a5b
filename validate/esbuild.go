package validate

import (
	"strings"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// endMarker is appended to a script for parsing only. export is valid only at the top level, and the parenthesis
// nowhere: if the parenthesis is the first error, the script is valid, and esbuild has stopped before its later passes,
// some of which take cubic time.
const endMarker = "\n;export{};)"

// syntaxErrors returns the errors of parsing a script, as a script or as a module.
func syntaxErrors(source string) []Problem {
	r := api.Transform(source+endMarker, api.TransformOptions{Loader: api.LoaderJS, Target: api.ESNext})
	var all []api.Message
	for _, m := range r.Errors {
		if at := m.Location; at == nil || at.LineText != endMarker[1:] {
			all = append(all, m)
			continue
		}
		if m.Text == `Unexpected ")"` {
			break
		}
		all = append(all, moveToEnd(m, source))
	}
	return toProblems(all)
}

// moveToEnd moves an error at endMarker to the end of the script, which is incomplete.
func moveToEnd(m api.Message, source string) api.Message {
	if strings.Contains(m.Text, "export") || strings.Contains(m.Text, `";"`) {
		m.Text = "Unexpected end of file: something above is not closed"
	}
	source = strings.TrimRight(source, " \t\r\n")
	line := source[strings.LastIndexByte(source, '\n')+1:]
	m.Location = &api.Location{Line: 1 + strings.Count(source, "\n"), Column: len(line), LineText: line}
	return m
}

// wrapInFunction wraps a script in the function that Node's CommonJS loader makes of it.
func wrapInFunction(source string) string {
	if strings.HasPrefix(source, "#!") {
		source = "//" + source
	}
	return "(function (exports, require, module, __filename, __dirname) {\n" + source + "\n});"
}

// refusesReturn reports whether JavaScript that parses is a module. The parser does not report it, but it refuses a
// top-level return only in modules.
func refusesReturn(source string) bool {
	r := api.Transform(source+"\n;return", api.TransformOptions{Loader: api.LoaderJS, Target: api.ESNext})
	return len(r.Errors) > 0
}

// translateTypeScript returns the JavaScript of TypeScript, with an inline source map.
func translateTypeScript(source, name string, toCommonJS bool) ([]byte, []Problem) {
	o := api.TransformOptions{
		Loader:         api.LoaderTS,
		Target:         api.ESNext,
		Supported:      map[string]bool{"decorators": false, "using": false},
		Sourcefile:     name,
		Sourcemap:      api.SourceMapInline,
		SourcesContent: api.SourcesContentInclude,
	}
	if toCommonJS {
		o.Format = api.FormatCommonJS
	}
	r := api.Transform(source, o)
	return r.Code, toProblems(r.Errors)
}

// maxProblems is the maximum number of problems reported of a script: later ones follow from the first.
const maxProblems = 5

func toProblems(messages []api.Message) []Problem {
	var all []Problem
	for _, m := range messages[:min(len(messages), maxProblems)] {
		p := Problem{}
		if at := m.Location; at != nil {
			p = problemInLine(at.Line, at.LineText, at.Column)
			p.unsure = isUnsure(m.Text, at.LineText, at.Column)
		}
		p.Text = strings.TrimSuffix(m.Text, ":")
		all = append(all, p)
	}
	return all
}

// isUnsure reports whether V8 is known to accept such code: V8 checks assignments to calls at run time, supports newer
// Unicode letters and bigint syntax, and accepts await as a name in more places. Found with the tests of ECMA-262.
func isUnsure(text, line string, at int) bool {
	before, after := line, ""
	if at <= len(line) {
		before, after = line[:at], line[at:]
	}
	letter := after != "" && after[0] >= utf8.RuneSelf
	return letter || text == "Invalid assignment target" || strings.HasPrefix(text, "Invalid identifier: ") ||
		bigint().MatchString(text) ||
		strings.HasPrefix(after, "await") && !strings.Contains(text, "can only be used inside") ||
		strings.HasSuffix(strings.TrimSpace(before), "await")
}

var bigint = lazy.Regexp(`found "[0-9]+n"$`)
