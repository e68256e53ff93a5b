package validate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Options configure Analyze.
type Options struct {
	Fix      bool     // add missing imports
	RulesOff []string // names of rules that are switched off
	// Python runs the Python analyser. Without it, Python code is not checked, and the report notes it.
	Python Interpreter
	// Cell is set for code of a session, where a Python cell may await outside of functions.
	Cell bool
	// Notebook is set for code in which lines of Python may begin with ! or %, as in notebooks.
	Notebook bool
}

// Report is the result of Analyze.
type Report struct {
	Language string    // "" if unknown
	Name     string    // its file name at execution
	Valid    bool      // its interpreter will accept the syntax
	Judged   bool      // Valid is from a parser of the whole language; otherwise only execution decides
	Problems []Problem // why it is not valid
	Missing  []Import
	Fixed    string // the source with missing imports added; "" when nothing changed
	Diff     string // from the source to Fixed
	Dangers  []Danger
	Notes    []string
}

// Import is a missing import: a name that is used but never bound. The about tags are in the schemas of tools.
type Import struct {
	Name      string `json:"name" about:"The name."`
	Statement string `json:"statement" about:"The import that defines it."`
	Line      int    `json:"line" about:"The line of its first use."`
	Column    int    `json:"column" about:"The column of its first use."`
}

// Danger is a match of a rule, with its place. The about tags are in the schemas of tools.
type Danger struct {
	Rule     string `json:"rule" about:"The rule's name."`
	Severity string `json:"severity" about:"info, low, medium or high."`
	Reason   string `json:"reason" about:"Why it is suspicious."`
	Line     int    `json:"line" about:"The line, from 1; 0 is the whole code."`
	Column   int    `json:"column" about:"The column, from 1."`
	Snippet  string `json:"snippet,omitempty" about:"The line with a caret under the place."` // as in Problem
}

// AtLeast returns the dangers of this severity and above; none for an unknown severity.
func (r Report) AtLeast(severity string) []Danger {
	least := severityRank(severity)
	return slices.DeleteFunc(slices.Clone(r.Dangers), func(d Danger) bool { return least == 0 || severityRank(d.Severity) < least })
}

// severityRank returns the rank of a severity, from 1; 0 for other text.
func severityRank(severity string) int {
	return slices.Index([]string{Info, Low, Medium, High}, severity) + 1
}

// findings are the results of an inspection. Positions are byte offsets in the source.
type findings struct {
	Hits    []ruleHit
	Missing []missingImport
	Insert  int    // where imports go
	Unread  string // why some of it was not inspected
}

type ruleHit struct {
	Rule string
	At   int
}

type missingImport struct {
	Name, Statement string
	At              int
}

// Analyze checks code without running it: its syntax, missing imports, and dangerous patterns. Faults of the code are
// in the report; errors are ctx's and the Python interpreter's. The order of Dangers and Missing is that of the source.
func Analyze(ctx context.Context, c Code, o Options) (Report, error) {
	r := Report{Problems: []Problem{}, Missing: []Import{}, Dangers: []Danger{}, Notes: []string{}}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	kind, err := identify(c)
	if err != nil {
		return r.withError(err)
	}
	r.Language, r.Name = kind.language, kind.scriptName(c.Name)
	checked, err := kind.prepare(c)
	var found findings
	switch {
	case err != nil:
	case kind.language == Python:
		found, err = r.inspectPython(ctx, c.Source, o)
	case kind.language == Node, kind.language == Shell:
		var a answer
		a, err = kind.parse(ctx, c.Name, &checked, true)
		r.Name, r.Judged, found = checked.Name, len(a.Problems) == 0, a.Found
	default:
		r.Notes = append(r.Notes, "the syntax is checked by the interpreter")
	}
	for _, w := range checked.Warnings {
		if w.Line > 0 {
			w.Text = fmt.Sprintf("line %d: %s", w.Line, w.Text)
		}
		r.Notes = append(r.Notes, w.Text)
	}
	if err != nil {
		return r.withError(err)
	}
	r.Valid = len(r.Problems) == 0
	r.addDangers(c.Source, found, o.RulesOff)
	for _, m := range found.Missing {
		p := problemAt(c.Source, m.At)
		r.Missing = append(r.Missing, Import{m.Name, m.Statement, p.Line, p.Column})
	}
	if o.Fix && len(found.Missing) > 0 {
		r.addImports(string(c.Source), found)
	}
	return r, nil
}

// withError turns an *Error into a report.
func (r Report) withError(err error) (Report, error) {
	bad, ok := errors.AsType[*Error](err)
	if !ok {
		return r, err
	}
	r.Valid, r.Problems = false, bad.Problems
	return r, nil
}

// addDangers adds the findings to the report, each rule once per line.
func (r *Report) addDangers(source []byte, found findings, off []string) {
	hits := found.Hits
	if found.Unread != "" {
		hits = append(hits, ruleHit{unread, -1})
		r.Notes = append(r.Notes, "not all of the code was inspected: "+found.Unread)
	}
	slices.SortStableFunc(hits, func(a, b ruleHit) int { return cmp.Or(a.At-b.At, strings.Compare(a.Rule, b.Rule)) })
	rules := rulesTable().rules
	for _, h := range hits {
		i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == h.Rule })
		if i < 0 || slices.Contains(off, h.Rule) || len(r.Dangers) >= maxDangers {
			continue
		}
		p := Problem{}
		if h.At >= 0 {
			p = problemAt(source, h.At)
		}
		if !slices.ContainsFunc(r.Dangers, func(d Danger) bool { return d.Rule == h.Rule && d.Line == p.Line }) {
			r.Dangers = append(r.Dangers, Danger{h.Rule, rules[i].Severity, rules[i].Reason, p.Line, p.Column, p.Snippet})
		}
	}
}

// maxDangers is the maximum number of dangers in a report: more add nothing.
const maxDangers = 100
