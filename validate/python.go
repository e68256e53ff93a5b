package validate

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/validate/notebook"
)

// Interpreter sends requests to a contained Python that runs PythonAnalyser: Python's parser is large and old, and
// reads code of strangers.
type Interpreter interface {
	// Ask hands on one request, JSON without its length, and returns the answer, without reading either. It may be
	// called concurrently.
	Ask(ctx context.Context, request []byte) ([]byte, error)
}

var (
	//go:embed python/names.py
	pythonNames string
	//go:embed python/values.py
	pythonValues string
	//go:embed python/dangers.py
	pythonDangers string
	//go:embed python/missing.py
	pythonMissingNames string
	//go:embed python/serve.py
	pythonServe string
)

// PythonAnalyser returns a Python program, for 3.8 and later, that reads requests from descriptor 3 and answers them
// there, each with its length before it in 4 bytes, big endian, until the other side closes. It inspects code and runs
// none of it. Each request is worked on by a child, for 10 seconds and in 1 GB of addresses at most, so that no source
// ends the program. Requests are answered one after the other. It needs its standard library, and nothing else of the
// file system.
func PythonAnalyser() string {
	return strings.Join([]string{pythonNames, pythonValues, pythonDangers, pythonMissingNames, notebook.Translation(), pythonServe}, "\n\n")
}

type pythonRequest struct {
	Source []byte   `json:"source"`
	Cell   bool     `json:"cell"`
	Lines  bool     `json:"notebook"`
	Known  []string `json:"known"`
}

// spot is a place in the answer of Python: line and column from 1, the column in characters.
type spot struct {
	Line, Column int
	Inline       bool
}

// pythonFinding is a finding of the Python analyser, of any kind.
type pythonFinding struct {
	spot
	Text, Name, Statement, Rule string

	Below bool // of a file that is written: all that is below it goes
}

type pythonAnswer struct {
	Problems, Notes, Missing, Dangers, Commands, Written []pythonFinding

	Insert spot
	Unread string
}

// python has the interpreter analyse source. Its answer is not trusted, since source might control it: only places,
// known rules and plain import statements are used.
func (r *Report) python(ctx context.Context, source []byte, o Options) (findings, error) {
	if o.Python == nil {
		r.Notes = append(r.Notes, "the syntax is checked by the interpreter: there is none here to ask before")
		return findings{Unread: "there is no Python interpreter to ask"}, nil
	}
	request, err := json.Marshal(pythonRequest{source, o.Cell, o.Notebook, o.Known})
	if err != nil {
		return findings{}, fmt.Errorf("ask the python analyser: %w", err)
	}
	answer, err := o.Python.Ask(ctx, request)
	if err != nil {
		return findings{}, fmt.Errorf("ask the python analyser: %w", err)
	}
	var a pythonAnswer
	if err := json.Unmarshal(answer, &a); err != nil {
		return findings{}, fmt.Errorf("read the python analyser's answer: %v", err)
	}
	r.Judged = true
	r.pythonProblems(source, a)
	return a.findings(source), nil
}

func (r *Report) pythonProblems(source []byte, a pythonAnswer) {
	for _, p := range a.Problems[:min(len(a.Problems), maxProblems)] {
		out := Problem{}
		if p.Line > 0 {
			out = place(source, offset(source, p.Line, p.Column))
		}
		out.Text = visible(firstRunes(p.Text, 500))
		r.Problems = append(r.Problems, out)
	}
	for _, n := range a.Notes[:min(len(a.Notes), maxNotes)] {
		r.note([]Problem{{Line: n.Line, Text: visible(firstRunes(n.Text, 500))}})
	}
}

const maxNotes = 20

// unreadWords maps the analyser's words for "not read" to sentences.
var unreadWords = map[string]string{
	"":       "",
	"nested": "it is nested too deeply, or takes too much memory to parse",
	"time":   "it takes too much time to parse",
	"much":   "there is too much in it",
	"old":    "this version of Python is older than 3.8",
}

func (a pythonAnswer) findings(source []byte) findings {
	var f findings
	at := func(s spot) int { return offset(source, s.Line, s.Column) }
	for _, d := range a.Dangers[:min(len(a.Dangers), 2*maxDangers)] {
		if strings.HasPrefix(d.Rule, "python-") {
			f.Hits = append(f.Hits, hit{d.Rule, at(d.spot)})
		}
	}
	for _, c := range a.Commands[:min(len(a.Commands), 2*maxDangers)] {
		f.Hits = append(f.Hits, commandHits(c.Text, at(c.spot))...)
	}
	for _, w := range a.Written[:min(len(a.Written), 2*maxDangers)] {
		switch {
		case w.Below && (everything(w.Text) || path.Clean(w.Text) == "."):
			f.Hits = append(f.Hits, hit{"python-delete-all", at(w.spot)})
		case systemFile(w.Text):
			f.Hits = append(f.Hits, hit{"python-system-write", at(w.spot)})
		}
	}
	for _, m := range a.Missing {
		if pythonImport().MatchString(m.Statement) && utf8.Valid(source) {
			f.Missing = append(f.Missing, missing{visible(m.Name), m.Statement, at(m.spot)})
		}
	}
	f.Insert = gap{at(a.Insert), a.Insert.Inline}
	words, known := unreadWords[a.Unread]
	if f.Unread = words; !known {
		f.Unread = unreadWords["nested"]
	}
	return f
}

var pythonImport = lazy.Regexp(`^(from [\w.]{1,80} import \w{1,80}|import [\w.]{1,80}( as \w{1,80})?)$`)
