package validate

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/validate/notebook"
)

// Interpreter sends requests to a contained Python that runs PythonAnalyser: Python's parser is large and old, and
// reads code of strangers.
type Interpreter interface {
	// Analyse hands on one request, JSON without its length, and returns the answer, without reading either. It may be
	// called concurrently.
	Analyse(ctx context.Context, request []byte) ([]byte, error)
}

var (
	//go:embed python/missing.py
	pythonMissingNames string
	//go:embed python/calls.py
	pythonCalls string
	//go:embed python/serve.py
	pythonServe string
)

// PythonAnalyser returns a Python program, for 3.8 and later, that reads requests from descriptor 3 and answers them
// there, each with its length before it in 4 bytes, big endian, until the other side closes. It inspects code and runs
// none of it. Each request is worked on by a child, for 10 seconds and in 1 GB of addresses at most, so that no source
// ends the program. Requests are answered one after the other. It needs its standard library, and nothing else of the
// file system.
func PythonAnalyser() string {
	return strings.Join([]string{pythonMissingNames, pythonCalls, notebook.Translation(), pythonServe}, "\n\n")
}

type pythonAnswer struct {
	Problems []struct {
		Text string
		At   int // -1 is no place
	}
	Notes   []string
	Missing []missingImport
	Calls   []call
	Insert  int
	Unread  string // why not all of it was looked at
}

// inspectPython has the interpreter analyse source. Its answer is not trusted, since source might control it: only places,
// known rules and plain import statements are used.
func (r *Report) inspectPython(ctx context.Context, source []byte, o Options) (f findings, err error) {
	defer f.recoverPanic()
	if o.Python == nil {
		r.Notes = append(r.Notes, "the syntax is checked by the interpreter: there is none here to ask before")
		return findings{Unread: "there is no Python interpreter to ask"}, nil
	}
	request, err := json.Marshal(map[string]any{"source": source, "cell": o.Cell, "notebook": o.Notebook, "calls": rulePaths(Python)})
	if err != nil {
		return findings{}, fmt.Errorf("ask the python analyser: %w", err)
	}
	answer, err := o.Python.Analyse(ctx, request)
	if err != nil {
		return findings{}, fmt.Errorf("ask the python analyser: %w", err)
	}
	var a pythonAnswer
	if err := json.Unmarshal(answer, &a); err != nil {
		return findings{}, fmt.Errorf("read the python analyser's answer: %v", err)
	}
	r.Judged = true
	for _, p := range a.Problems[:min(len(a.Problems), maxProblems)] {
		out := Problem{}
		if p.At >= 0 {
			out = problemAt(source, p.At)
		}
		out.Text = escapeInvisible(firstRunes(p.Text, 500))
		r.Problems = append(r.Problems, out)
	}
	for _, n := range a.Notes[:min(len(a.Notes), maxNotes)] {
		r.Notes = append(r.Notes, escapeInvisible(firstRunes(n, 500)))
	}
	f = matchRules(Python, a.Calls[:min(len(a.Calls), maxHits)], 0)
	for _, m := range a.Missing[:min(len(a.Missing), maxDangers)] {
		if pythonImport().MatchString(m.Statement) && utf8.Valid(source) {
			f.Missing = append(f.Missing, missingImport{escapeInvisible(m.Name), m.Statement, m.At})
		}
	}
	f.Insert, f.Unread = a.Insert, cmp.Or(f.Unread, escapeInvisible(firstRunes(a.Unread, 200)))
	return f, nil
}

const maxNotes = 20

var pythonImport = lazy.Regexp(`^(from [\w.]{1,80} import \w{1,80}|import [\w.]{1,80}( as \w{1,80})?)$`)
