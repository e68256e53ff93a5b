package validate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// maxInProcess is the maximum source size, in bytes, for parsing in this process. Parsers recurse with the nesting, at
// up to 8 KB of stack per level, and a stack of 1 GB crashes a Go program.
const maxInProcess = 16 << 10

// importMeta matches possible uses of import.meta, the only module syntax that parses in scripts, too.
var importMeta = lazy.Regexp(`\bimport\s*\.\s*meta\b`)

// parse runs a job in this process if the source is too small to exhaust the parser, and otherwise in another process,
// which may die. The error is ctx's, or that of starting the process.
func (j job) parse(ctx context.Context) (answer, error) {
	if j.isLight() {
		return j.parseHere(), nil
	}
	a, err := parseIsolated(ctx, j, isolatedTimeout)
	switch {
	case ctx.Err() != nil:
		return a, ctx.Err()
	case err != nil && j.Tree: // perhaps only the inspection is too expensive
		j.Tree = false
		a, again := j.parse(ctx)
		a.Found.Unread = err.Error()
		return a, again
	case err != nil && !j.TypeScript: // the interpreter decides later
		return answer{Name: j.Name, Problems: []Problem{{Text: "the syntax was not checked: " + err.Error()}}, Unsure: true}, nil
	case errors.Is(err, errParserLimits):
		return answer{Problems: []Problem{{
			Text: "this TypeScript can't be translated: " + err.Error() + "; make it simpler, or send JavaScript",
		}}}, nil
	}
	return a, err
}

// isLight reports whether a job is cheap and needs only a parser.
func (j job) isLight() bool {
	heavy := j.TypeScript || j.Language == Node && (importMeta().Match(j.Source) || j.Tree && countNesting(j.Source) > maxNests)
	return len(j.Source) <= maxInProcess && !heavy
}

// maxNests is the largest number of functions and blocks that esbuild translates in this process: nested ones take
// cubic time, 0.2 seconds for these.
const maxNests = 200

func countNesting(source []byte) int {
	return bytes.Count(source, []byte("{")) + bytes.Count(source, []byte("=>"))
}

func (j job) parseHere() (a answer) {
	switch {
	case j.Language == Shell:
		a = j.checkShell()
	case j.TypeScript:
		a = j.translateTypeScript()
	default:
		a = j.checkJavaScript()
	}
	if j.Tree && (len(a.Problems) == 0 || a.Unsure) {
		a.Found = j.inspectSource(a.Name)
	}
	return a
}

// checkJavaScript checks a script and detects modules as Node does: source that parses as a function body is CommonJS,
// and other valid source is a module.
func (j job) checkJavaScript() answer {
	source := string(j.Source)
	a := answer{Name: j.Name, Problems: syntaxErrors(source)}
	switch name, isJS := strings.CutSuffix(j.Name, ".js"); {
	case len(a.Problems) > 0 && len(syntaxErrors(wrapInFunction(source))) == 0:
		a.Problems = nil // in a function, await is an ordinary name, and new.target is valid
	case len(a.Problems) > 0:
		a.Unsure = slices.ContainsFunc(a.Problems, func(p Problem) bool { return p.unsure })
	case isJS && isModule(source):
		a.Name = name + ".mjs" // Node before 20.19 goes by the name alone
	}
	return a
}

func isModule(source string) bool {
	if !strings.Contains(source, "import") && !strings.Contains(source, "export") && !strings.Contains(source, "await") {
		return false
	}
	return len(syntaxErrors(wrapInFunction(source))) > 0 || importMeta().MatchString(source) && refusesReturn(source)
}

// translateTypeScript translates TypeScript to JavaScript. Types are removed and not checked, as in Node; syntax that
// Node does not have (enum, namespaces, decorators, using) is translated, too. A .cts file may use import and export,
// which become require and exports, as with tsc.
func (j job) translateTypeScript() answer {
	ext := path.Ext(j.Name)
	js, problems := translateTypeScript(string(j.Source), j.Name, strings.EqualFold(ext, ".cts"))
	if len(problems) > 0 {
		return answer{Problems: problems}
	}
	a := answer{Name: strings.TrimSuffix(j.Name, ext), Source: js}
	switch {
	case strings.EqualFold(ext, ".cts"):
		a.Name += ".cjs"
	case strings.EqualFold(ext, ".mts"), refusesReturn(string(js)):
		a.Name += ".mjs"
	default:
		a.Name += ".js"
	}
	return a
}

// recoverPanic turns a parser's panic on malformed code into findings.
func (f *findings) recoverPanic() {
	if p := recover(); p != nil {
		*f = findings{Unread: fmt.Sprintf("our parser failed: %.100v", p)}
	}
}

// inspectSource applies the rules to the source.
func (j job) inspectSource(name string) (f findings) {
	defer f.recoverPanic()
	if j.Language == Node {
		return j.inspectNode(name)
	}
	tree, err := parseShell(string(j.Source))
	f = matchRules(Shell, shellCalls(tree), 0)
	if err != nil {
		f.Unread = unknownSyntax
	}
	return f
}

const unknownSyntax = "our parser does not know all of its syntax"
