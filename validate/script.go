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

// maxInProcess is the longest source, in bytes, that is parsed in this process. Parsers recurse as deep
// as the source nests, on up to 8 KB of stack a level, and a stack of 1 GB ends a Go program.
const maxInProcess = 16 << 10

// importMeta matches possible uses of import.meta, the only sign of a module that parses the same in a script and in a
// module.
var importMeta = lazy.Regexp(`\bimport\s*\.\s*meta\b`)

// parse does a job in this process, where only parsers run, and only on sources that can't exhaust them; the rest is
// done by a process that may die. The error is ctx's, or says that no such process could be started.
func (j job) parse(ctx context.Context) (answer, error) {
	if j.isLight() {
		return j.parseHere(), nil
	}
	a, err := parseIsolated(ctx, j, isolatedTimeout)
	switch {
	case ctx.Err() != nil:
		return a, ctx.Err()
	case err != nil && j.Tree: // perhaps only the inspection of the tree takes so much
		j.Tree = false
		a, again := j.parse(ctx)
		a.Found.Unread = err.Error()
		return a, again
	case err != nil && !j.TypeScript: // the interpreter can still say what it thinks of it
		return answer{Name: j.Name, Problems: []Problem{{Text: "the syntax was not checked: " + err.Error()}}, Unsure: true}, nil
	case errors.Is(err, errParserLimits):
		return answer{Problems: []Problem{{
			Text: "this TypeScript can't be translated: " + err.Error() + "; make it simpler, or send JavaScript",
		}}}, nil
	}
	return a, err
}

// isLight reports whether a job takes no more than a parser, and little of it.
func (j job) isLight() bool {
	heavy := j.TypeScript || j.Language == Node && (importMeta().Match(j.Source) || j.Tree && countNesting(j.Source) > maxNests)
	return len(j.Source) <= maxInProcess && !heavy
}

// maxNests is the largest number of functions and blocks that esbuild translates in this process: one in the other they
// take cubic time, 0.2 seconds for these.
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

// checkJavaScript checks a script and decides whether it is a module as Node does: source that parses as the body of a
// function is CommonJS, and other source that parses is a module.
func (j job) checkJavaScript() answer {
	source := string(j.Source)
	a := answer{Name: j.Name, Problems: syntaxErrors(source)}
	switch name, isJS := strings.CutSuffix(j.Name, ".js"); {
	case len(a.Problems) > 0 && len(syntaxErrors(wrapInFunction(source))) == 0:
		a.Problems = nil // in a function, await is an ordinary name, and new.target is allowed
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

// translateTypeScript translates TypeScript to JavaScript. Types are removed and not checked, as in Node; syntax that Node does
// not have (enum, namespaces, decorators, using) is translated, too. A .cts file may use import and export, which
// become require and exports, as with tsc.
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

// recoverPanic makes findings of the panic of a parser of ours, which were made for what is right.
func (f *findings) recoverPanic() {
	if p := recover(); p != nil {
		*f = findings{Unread: fmt.Sprintf("our parser failed: %.100v", p)}
	}
}

// inspectSource looks for what rules describe.
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
