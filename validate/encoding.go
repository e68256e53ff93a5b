package validate

import (
	"fmt"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// codingCookie matches the declaration of PEP 263: a comment in the first line, or in the second below a comment or
// nothing.
var codingCookie = lazy.Regexp(`^([ \t\f]*(#[^\n]*)?\r?\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*[-_.a-zA-Z0-9]+`)

// checkEncoding reports bytes that are not UTF-8. They are an error only in Python, unless the script declares another
// encoding; Node reads each as U+FFFD; bash passes them through.
func checkEncoding(k kind, source []byte) (warnings []Problem, bad *Problem) {
	if utf8.Valid(source) {
		return nil, nil
	}
	at := 0
	for r, n := utf8.DecodeRune(source); r != utf8.RuneError || n != 1; r, n = utf8.DecodeRune(source[at:]) {
		at += n
	}
	p := problemAt(source, at)
	switch k.language {
	case Python:
		if codingCookie().Match(source) {
			return nil, nil
		}
		p.Text = fmt.Sprintf("byte 0x%02x is not UTF-8: save the script as UTF-8, or declare its encoding in the first line (# coding: latin-1)",
			source[at])
		return nil, &p
	case Node:
		p.Text = fmt.Sprintf("byte 0x%02x is not UTF-8: Node reads U+FFFD instead", source[at])
	default:
		p.Text = fmt.Sprintf("byte 0x%02x is not UTF-8: it is passed on as it is", source[at])
	}
	return []Problem{p}, nil
}
