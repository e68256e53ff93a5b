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

// Interpreter sends requests to a contained Python that runs PythonAnalyser (python/serve.py), since Python's parser is large and old,
// and the code untrusted.
type Interpreter interface {
	// Analyse sends one request, JSON without its length, and returns the answer, without parsing either. It may be called
	// concurrently.
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
// there, each with a 4-byte big-endian length prefix, until the other side closes. It inspects code without running it.
// A child process handles each request, within 10 seconds and 1 GB of addresses, so that no source ends the program.
// Requests are answered in order. It needs only its standard library.
func PythonAnalyser() string {
	return strings.Join([]string{pythonMissingNames, pythonCalls, notebook.Translation(), pythonServe}, "\n\n")
}

type pythonAnswer struct {
	Problems []struct {
		Text string
		At   int // -1 for no position
	}
	Notes   []string
	Missing []missingImport
	Calls   []call
	Insert  int
	Unread  string // why some of it was not inspected
}

// inspectPython analyses source with the interpreter. Its answer is untrusted, since source might control it: only
// positions, known rules and plain import statements are used.
func (r *Report) inspectPython(ctx context.Context, source []byte, o Options) (f findings, err error) {
	defer f.recoverPanic()
	if o.Python == nil {
		r.Notes = append(r.Notes, "the syntax is checked only when the code runs: there is no interpreter here to check it before")
		return findings{Unread: "there is no Python interpreter"}, nil
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
