package pipeline

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// redactor removes leased secrets, and text that looks like other secrets, from text.
type redactor struct {
	leases  vault.Leases        // whose secrets are removed
	now     func() vault.Leases // the same, where other code of a session may be lent more meanwhile; or nil
	unknown *unknown            // finds text that looks like other secrets
}

// held returns the leases whose secrets are removed.
func (v redactor) held() vault.Leases {
	if v.now != nil {
		return v.now()
	}
	return v.leases
}

func (v redactor) clean(text string) string { return v.unknown.clean(v.held().Redact(text)) }

// cleanEnd is clean for a text whose end was cut off.
func (v redactor) cleanEnd(text string) string { return v.unknown.clean(v.held().RedactCut(text)) }

// briefEnd is the length, in bytes, from which on a session's driver may have cut a name or a text that
// describes a variable; it cuts nothing but the end.
const briefEnd = 200

// cleanBrief is clean for such a text.
func (v redactor) cleanBrief(text string) string {
	if len(text) < briefEnd {
		return v.clean(text)
	}
	return v.cleanEnd(text)
}

// cutMark is what a session's driver puts in the place of what it left out of a long text. A program can
// print the same, and hides nothing but its own words by it.
var cutMark = lazy.Regexp(`\n\[(?:cut: \d+ bytes in all|\d+ (?:of \d+ |more )?(?:characters|bytes) are left out)\]`)

// cleanCut is clean for a text that a session's driver may have cut, inside of the sandbox, where it knows no
// secret. What may be the first half of one goes from before each cut, and so does the rest of the line
// behind it, which may be the second.
func (v redactor) cleanCut(text string) string {
	if len(v.held()) == 0 {
		return v.clean(text)
	}
	var out strings.Builder
	from := 0
	for _, at := range cutMark().FindAllStringIndex(text, -1) {
		out.WriteString(v.cleanEnd(text[from:at[0]]))
		out.WriteString(text[at[0]:at[1]])
		from = at[1]
		if tail, more := strings.CutPrefix(text[from:], "\n"); more {
			line, _, _ := strings.Cut(tail, "\n")
			from += len("\n") + len(line)
		}
	}
	out.WriteString(v.clean(text[from:]))
	return out.String()
}

// writer returns a writer that writes text without the secrets to w, also those of leases that are added while it is written to. Its Close does
// not close w.
func (v redactor) writer(w io.Writer) io.WriteCloser { return &growing{leases: v.held, to: w} }

// growing is a writer through a redactor of each lease so far, the last first.
type growing struct {
	leases func() vault.Leases
	to     io.Writer
	chain  []io.WriteCloser
}

// Write implements [io.Writer].
func (g *growing) Write(b []byte) (int, error) {
	for _, l := range g.leases()[len(g.chain):] {
		c := l.Writer(g.to)
		g.chain, g.to = append(g.chain, c), c
	}
	return g.to.Write(b)
}

// Close implements [io.Closer].
func (g *growing) Close() error {
	var errs []error
	for _, c := range slices.Backward(g.chain) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
