package validate

import (
	"bytes"
	"errors"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// checkShell reports syntax errors. Most are only warnings: bash reads and runs a script command by command, so an error
// below keeps nothing above from running, and our parser refuses some of what bash takes. An error is sure if bash,
// too, would read to the end of the file without finding the missing word, or meets a keyword that can't stand there,
// and if nothing above may end the script earlier, or change how the rest is read.
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

// parseShell returns the tree of a script, as far as it was read.
func parseShell(source string) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(source), "")
}

// sureInShell matches complaints that bash shared in each of 1,500 scripts (its own tests and those of a Debian).
var sureInShell = lazy.Regexp("^reached EOF without closing quote|" +
	"statement must end with `|" +
	"^`(then|elif|else|fi|do|done|esac)` can only be used|" +
	"^`(if|elif|while|until) <cond>` must be followed by `")

// mayEndBefore matches commands that may keep bash from reading on, or give words another meaning.
var mayEndBefore = lazy.Regexp(`\b(exit|exec|return|eval|source|alias|shopt|kill|set|enable)\b|(^|[\s;&|])\.\s`)

// warnCRLF warns of Windows' line ends: bash takes the carriage return for a part of the last word of each line.
func warnCRLF(source []byte) []Problem {
	at := bytes.Index(source, []byte("\r\n"))
	if at < 0 {
		return nil
	}
	p := problemAt(source, at)
	p.Text = "the lines end with CR LF, and bash reads the CR as a part of the line: save the script with LF (sed -i 's/\\r$//')"
	return []Problem{p}
}
