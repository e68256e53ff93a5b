package validate

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// maxHere is the longest source, in bytes, that is parsed in this process. Parsers recurse as deep
// as the source nests, on up to 8 KB of stack a level, and a stack of 1 GB ends a Go program.
const maxHere = 16 << 10

// importMeta matches possible uses of import.meta, the only sign of a module that parses the same in a script and in a
// module.
var importMeta = lazy.Regexp(`\bimport\s*\.\s*meta\b`)

// checkSyntax checks a script for Node or bash, and translates TypeScript to JavaScript. In this process only parsers
// run, and only on sources that can't exhaust them; the rest is done by a process that may die.
func (out *Checked) checkSyntax(ctx context.Context, k kind) error {
	j := job{Name: out.Name, Source: out.Source, Language: k.language, TypeScript: k.typescript}
	if len(j.Source) <= maxHere && !j.heavy() {
		return out.take(j.do())
	}
	a, err := isolate(ctx, j, isolatedTimeout)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return out.take(a)
	case !k.typescript: // the interpreter can still say what it thinks of it
		out.Warnings = append(out.Warnings, Problem{Text: "the syntax was not checked: " + err.Error()})
		return nil
	case errors.Is(err, errTooMuch):
		return &Error{Problems: []Problem{{
			Text: "this TypeScript can't be translated: " + err.Error() + "; make it simpler, or send JavaScript",
		}}}
	}
	return err
}

// heavy reports whether a job takes more than a parser, and so possibly forever.
func (j job) heavy() bool {
	return j.TypeScript || j.Language == Node && importMeta().Match(j.Source)
}

func (j job) do() answer {
	var a answer
	switch {
	case j.Language == Shell:
		a = j.shell()
	case j.TypeScript:
		a = j.typescript()
	default:
		a = j.javascript()
	}
	if j.Tree && (len(a.Problems) == 0 || a.Unsure) {
		a.Found = j.inspect(a.Name)
	}
	return a
}

// take makes an answer the result, or returns its problems as the error.
func (out *Checked) take(a answer) error {
	if len(a.Problems) > 0 && !a.Unsure {
		return &Error{Problems: a.Problems}
	}
	out.Warnings = append(out.Warnings, a.Problems...)
	out.Name = a.Name
	if a.Source != nil {
		out.Source = a.Source
	}
	return nil
}

// javascript checks a script and decides whether it is a module as Node does: source that parses as the body of a
// function is CommonJS, and other source that parses is a module.
func (j job) javascript() answer {
	source := string(j.Source)
	a := answer{Name: j.Name, Problems: syntaxErrors(source)}
	if len(a.Problems) > 0 {
		// In a function, await is an ordinary name, and new.target is allowed.
		if len(syntaxErrors(inFunction(source))) == 0 {
			return answer{Name: j.Name}
		}
		a.Unsure = slices.ContainsFunc(a.Problems, func(p Problem) bool { return p.unsure })
		return a
	}
	if name, isJS := strings.CutSuffix(j.Name, ".js"); isJS && isModule(source) {
		a.Name = name + ".mjs" // Node before 20.19 goes by the name alone
	}
	return a
}

func isModule(source string) bool {
	if !strings.Contains(source, "import") && !strings.Contains(source, "export") && !strings.Contains(source, "await") {
		return false
	}
	return len(syntaxErrors(inFunction(source))) > 0 || importMeta().MatchString(source) && refusesReturn(source)
}

// typescript translates TypeScript to JavaScript. Types are removed and not checked, as in Node; syntax that Node does
// not have (enum, namespaces, decorators, using) is translated, too. A .cts file may use import and export, which
// become require and exports, as with tsc.
func (j job) typescript() answer {
	ext := path.Ext(j.Name)
	js, problems := translate(string(j.Source), j.Name, strings.EqualFold(ext, ".cts"))
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
