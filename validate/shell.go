package validate

import (
	"bytes"
	"errors"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// checkShell reports syntax errors. Most are only warnings: bash runs a script command by command, so commands before
// an error run, and our parser refuses some valid bash. An error is certain if bash, too, would read to the end of the
// file without finding the missing word, or finds a misplaced keyword, and if no earlier command may end the script, or
// change how the rest is parsed.
func (j job) checkShell() answer {
	a := answer{Name: j.Name}
	_, err := parseShell(string(j.Source))
	// Otherwise it is nil, or a feature of another dialect.
	if bad, isParse := errors.AsType[syntax.ParseError](err); isParse {
		at := min(int(bad.Pos.Offset()), len(j.Source))
		p := Problem{}
		if bad.Pos.IsValid() {
			p = problemAt(j.Source, at)
		}
		p.Text = bad.Text
		a.Problems = []Problem{p}
		a.Unsure = !sureInShell().MatchString(bad.Text) || mayEndBefore().Match(j.Source[:at])
	}
	return a
}

// parseShell returns the tree of a script up to an error.
func parseShell(source string) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(source), "")
}

// sureInShell matches errors that bash also reported in each of 1,500 scripts (its own tests and those of a Debian).
var sureInShell = lazy.Regexp("^reached EOF without closing quote|" +
	"statement must end with `|" +
	"^`(then|elif|else|fi|do|done|esac)` can only be used|" +
	"^`(if|elif|while|until) <cond>` must be followed by `")

// mayEndBefore matches commands that may end the script, or change the meaning of words.
var mayEndBefore = lazy.Regexp(`\b(exit|exec|return|eval|source|alias|shopt|kill|set|enable)\b|(^|[\s;&|])\.\s`)

// warnCRLF warns of CRLF line ends: bash treats the carriage return as part of the last word of each line.
func warnCRLF(source []byte) []Problem {
	at := bytes.Index(source, []byte("\r\n"))
	if at < 0 {
		return nil
	}
	p := problemAt(source, at)
	p.Text = "the lines end with CR LF, and bash reads the CR as a part of the line: save the script with LF (sed -i 's/\\r$//')"
	return []Problem{p}
}
