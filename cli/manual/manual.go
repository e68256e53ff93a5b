// Package manual writes manual pages, in the man(7) macros of roff.
package manual

import (
	"fmt"
	"io"
	"strings"
)

// Page is a manual page of section 1.
type Page struct {
	Name     string
	About    string // one line without a full stop
	Source   string // program and version, for the foot of the page
	Sections []Section
}

// Section is a part of a page with its own heading.
type Section struct {
	Title    string
	Sub      bool   // subsection of the section before
	Synopsis string // command lines, one a line
	Text     string // paragraphs; indented lines are printed verbatim
	Terms    []Term
}

// Term is a word and its meaning.
type Term struct{ Word, Meaning string }

// Write writes p to w.
func Write(w io.Writer, p Page) error {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" %s \"User Commands\"\n", quote(strings.ToUpper(p.Name)), quote(p.Source))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", escape(p.Name), escape(p.About))
	for _, s := range p.Sections {
		s.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Section) write(b *strings.Builder) {
	macro := ".SH "
	if s.Sub {
		macro = ".SS "
	}
	b.WriteString(macro + quote(s.Title) + "\n")
	if s.Synopsis != "" {
		literalText(b, strings.Split(s.Synopsis, "\n"))
	}
	writeText(b, s.Text)
	for _, t := range s.Terms {
		b.WriteString(".TP\n\\fB" + escapeLine(t.Word) + "\\fR\n" + escapeLine(t.Meaning) + "\n")
	}
}

// writeText writes paragraphs. An indented line is an example or a row of a list, and is not filled.
func writeText(b *strings.Builder, s string) {
	var out []string
	begin := true // of a paragraph
	for l := range strings.SplitSeq(s, "\n") {
		if strings.HasPrefix(l, " ") {
			out = append(out, strings.TrimPrefix(l, "  "))
			continue
		}
		if len(out) > 0 {
			literalText(b, out)
			out, begin = nil, true
		}
		if l == "" {
			begin = true
			continue
		}
		if begin {
			b.WriteString(".PP\n")
			begin = false
		}
		b.WriteString(escapeLine(l) + "\n")
	}
	if len(out) > 0 {
		literalText(b, out)
	}
}

func literalText(b *strings.Builder, lines []string) {
	b.WriteString(".PP\n.RS 4\n.nf\n")
	for _, l := range lines {
		b.WriteString(escapeLine(l) + "\n")
	}
	b.WriteString(".fi\n.RE\n")
}

// escape prevents roff from interpreting characters of s, or changing their typography.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(s)
}

// escapeLine escapes a whole line of text, which must not begin like a request.
func escapeLine(s string) string {
	s = escape(s)
	if strings.HasPrefix(s, ".") {
		return `\&` + s
	}
	return s
}

func quote(s string) string { return `"` + strings.ReplaceAll(escape(s), `"`, `\(dq`) + `"` }
