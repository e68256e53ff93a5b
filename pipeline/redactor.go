package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// Redactor removes leased secrets, and text that looks like other secrets, from text.
type Redactor struct {
	Leases        vault.Leases        // their secrets are removed
	CurrentLeases func() vault.Leases // replaces Leases if other code of the session may lease more meanwhile; or nil
	Tokens        *TokenFinder        // finds text that looks like other secrets
}

// currentLeases returns the leases in force now.
func (v Redactor) currentLeases() vault.Leases {
	if v.CurrentLeases != nil {
		return v.CurrentLeases()
	}
	return v.Leases
}

// Clean returns text without secrets.
func (v Redactor) Clean(text string) string {
	return v.Tokens.cleanText(v.currentLeases().Redact(text))
}

// CleanEnd is Clean for a text whose end was cut off.
func (v Redactor) CleanEnd(text string) string {
	return v.Tokens.cleanText(v.currentLeases().RedactCut(text))
}

// briefEnd is the length, in bytes, from which a session's driver may have cut the name or description of a variable,
// at its end only.
const briefEnd = 200

// CleanBrief is Clean for such a text.
func (v Redactor) CleanBrief(text string) string {
	if len(text) < briefEnd {
		return v.Clean(text)
	}
	return v.CleanEnd(text)
}

// cutMark matches the mark that a session's driver leaves where it cut a long text. A program can print the mark too,
// and only loses its own text by that.
var cutMark = lazy.Regexp(`\n\[(?:cut: \d+ bytes in all|\d+ (?:of \d+ |more )?(?:characters|bytes) are left out)\]`)

// CleanCut is Clean for a text that a session's driver may have cut in the sandbox, where it does not know secrets. A
// cut may split a secret, so CleanCut removes a possible first half before it, and the rest of the line after it.
func (v Redactor) CleanCut(text string) string {
	if len(v.currentLeases()) == 0 {
		return v.Clean(text)
	}
	var out strings.Builder
	from := 0
	for _, at := range cutMark().FindAllStringIndex(text, -1) {
		out.WriteString(v.CleanEnd(text[from:at[0]]))
		out.WriteString(text[at[0]:at[1]])
		from = at[1]
		if tail, more := strings.CutPrefix(text[from:], "\n"); more {
			line, _, _ := strings.Cut(tail, "\n")
			from += len("\n") + len(line)
		}
	}
	out.WriteString(v.Clean(text[from:]))
	return out.String()
}

// writer returns a writer to w that removes secrets, including those of leases added meanwhile. Its Close does not
// close w.
func (v Redactor) writer(w io.Writer) io.WriteCloser {
	return &growingRedactor{leases: v.currentLeases, to: w}
}

// growingRedactor redacts with each lease so far, the last first.
type growingRedactor struct {
	leases func() vault.Leases
	to     io.Writer
	chain  []io.WriteCloser
}

// Write implements [io.Writer].
func (g *growingRedactor) Write(b []byte) (int, error) {
	for _, l := range g.leases()[len(g.chain):] {
		c := l.Writer(g.to)
		g.chain, g.to = append(g.chain, c), c
	}
	return g.to.Write(b)
}

// Close implements [io.Closer].
func (g *growingRedactor) Close() error {
	var errs []error
	for _, c := range slices.Backward(g.chain) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// SecretScanner returns a function that searches artifacts for secrets, or nil if none is needed.
func (r *Run) SecretScanner() func(io.Reader) (bool, error) {
	var known func(io.Reader) (bool, error)
	if held := r.currentLeases(); len(held) > 0 && !r.Pipeline.Config.Artifacts.ShowSecrets {
		known = held.ContainsSecret
	}
	if r.Tokens.Policy == UnknownOff {
		return known
	}
	return func(in io.Reader) (bool, error) { return r.Tokens.ScanFile(in, known) }
}

// NewRedactor returns the redactor of a run with these leases.
func (p *Pipeline) NewRedactor(leases vault.Leases) Redactor {
	return Redactor{Leases: leases, Tokens: &TokenFinder{Policy: p.Config.UnknownTokens}}
}

// CleanJSON removes secrets from a value: from each string in it, however JSON escapes it, and then from the whole.
// The result may be invalid JSON if a secret was not in a string.
func (v Redactor) CleanJSON(value json.RawMessage) json.RawMessage {
	var tree any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if d.Decode(&tree) == nil {
		var out bytes.Buffer
		e := json.NewEncoder(&out)
		e.SetEscapeHTML(false)
		if e.Encode(v.cleanTree(tree)) == nil {
			value = bytes.TrimSpace(out.Bytes())
		}
	}
	return json.RawMessage(v.Clean(string(value)))
}

func (v Redactor) cleanTree(tree any) any {
	switch tree := tree.(type) {
	case string:
		return v.Clean(tree)
	case []any:
		for i := range tree {
			tree[i] = v.cleanTree(tree[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(tree))
		for key, one := range tree {
			clean[v.Clean(key)] = v.cleanTree(one)
		}
		return clean
	}
	return tree
}
