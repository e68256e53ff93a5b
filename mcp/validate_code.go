package mcp

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/validate"
	"github.com/sandboxmcp/sandboxmcp/validate/notebook"
)

const aboutValidate = `Checks code without running it: syntax errors with line, column and a caret, missing imports, and suspicious patterns, ` +
	`each with its reason and place. With auto_fix it also returns the code with missing imports added.`

type validateArgs struct {
	Code     string   `json:"code" about:"The source code to check." required:"true"`
	Language language `json:"language" about:"Language of the code." default:"python"`
	AutoFix  bool     `json:"auto_fix" about:"Adds missing imports, and returns the fixed code and a diff." default:"false"`
}

type validateFacts struct {
	answer.Common
	Valid    bool               `json:"valid" about:"Whether the code parses."`
	Language string             `json:"language,omitempty" about:"The checked language."`
	Problems []validate.Problem `json:"problems,omitempty" about:"Why it does not parse."`
	Missing  []validate.Import  `json:"missing_imports,omitempty" about:"Undefined names, and the imports that define them."`
	Dangers  []validate.Danger  `json:"dangers,omitempty" about:"Suspicious patterns. Containment does not depend on them."`
	Fixed    string             `json:"fixed,omitempty" about:"The code with missing imports added, if any."`
	Diff     string             `json:"diff,omitempty" about:"The diff from the code to fixed."`
	Notes    []string           `json:"notes,omitempty" about:"What could not be checked, and other notes."`
}

func (s *Server) validateCode(ctx context.Context, c *call, a *validateArgs) (*answer.Answer, error) {
	language := string(a.Language)
	inner, named := notebook.Unfence(string(normalizeSource(a.Code)))
	if _, err := validate.Language(named); err == nil { // as for execute_code
		language = named
	}
	if other := containment.OtherLanguage(s.cfg.Pipeline, named, ""); other != "" {
		language = other
	}
	if containment.OtherLanguage(s.cfg.Pipeline, language, "") != "" {
		return s.validateOther(ctx, c, language, inner)
	}
	code := validate.Code{Language: language, Source: []byte(inner)}
	r, err := run.Analyze(ctx, s.cfg.Pipeline, code, validate.Options{Fix: a.AutoFix, Notebook: true})
	if err != nil {
		return nil, err
	}
	f := &validateFacts{Valid: r.Valid, Language: language, Problems: r.Problems, Missing: r.Missing, Dangers: r.Dangers, Fixed: r.Fixed,
		Diff: r.Diff, Notes: r.Notes}
	text := []string{"valid " + language}
	switch {
	case r.Valid && !r.Judged:
		text[0] = "not checked: its validity shows only when it runs " + language
	case !r.Valid:
		text[0] = fmt.Sprintf("not valid: %s", answer.Count(len(r.Problems), "problem"))
	}
	for _, p := range r.Problems {
		text = append(text, findingText(p.Line, p.Column, p.Text, p.Snippet))
	}
	for _, m := range r.Missing {
		text = append(text, fmt.Sprintf("line %d: %s is undefined: %s", m.Line, m.Name, m.Statement))
	}
	if len(r.Dangers) == 0 && r.Valid && r.Judged {
		text = append(text, "no suspicious patterns")
	}
	for _, d := range r.Dangers {
		text = append(text, findingText(d.Line, d.Column, fmt.Sprintf("%s (%s, %s)", d.Reason, d.Severity, d.Rule), d.Snippet))
	}
	for _, n := range r.Notes {
		text = append(text, "note: "+n)
	}
	switch {
	case r.Fixed != "" && len(r.Fixed) <= answer.MaxStreams/2:
		text = append(text, "the code with its imports:", r.Fixed)
	case r.Diff != "":
		text = append(text, "what auto_fix changed:", r.Diff)
	}
	return &answer.Answer{Text: strings.TrimRight(strings.Join(text, "\n"), "\n"), Facts: f}, nil
}

// validateOther checks code of a language from the configuration, by the operator's command, in a sandbox.
func (s *Server) validateOther(ctx context.Context, c *call, language, code string) (*answer.Answer, error) {
	_, res, err := pipeline.Do(ctx, s.cfg.Pipeline, run.Request{
		Namespace: c.namespace, Language: language, Code: []byte(code), CheckOnly: true,
	})
	if err != nil {
		return nil, err
	}
	says := answer.Excerpt(strings.TrimRight(res.Stdout+res.Stderr, "\n"), answer.MaxTraceback, "")
	f := &validateFacts{Valid: res.Ended == backends.EndedOK, Language: language}
	if f.Valid {
		return &answer.Answer{Text: "valid " + language + "\n" + says, Facts: f}, nil
	}
	f.Problems = []validate.Problem{{Text: cmp.Or(says, answer.EndOf(res))}}
	return &answer.Answer{Text: "not valid: " + answer.EndOf(res) + "\n" + says, Facts: f}, nil
}

// findingText returns a finding with its place.
func findingText(line, column int, text, snippet string) string {
	if line > 0 {
		text = fmt.Sprintf("line %d, column %d: %s", line, column, text)
	}
	if snippet != "" {
		text += "\n" + snippet
	}
	return text
}
