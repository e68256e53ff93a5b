package validate

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// codingCookie matches the declaration of PEP 263: a comment in one of the first two lines.
var codingCookie = lazy.Regexp(`^[ \t\f]*#.*?coding[:=][ \t]*([-_.a-zA-Z0-9]+)`)

// encoding reports bytes that are not UTF-8. Python refuses them unless the script declares another encoding; Node
// reads each as U+FFFD; bash passes them through. So they are an error only in Python.
func encoding(k kind, source []byte) (warnings []Problem, bad *Problem) {
	at := firstInvalid(source)
	if at < 0 {
		return nil, nil
	}
	p := place(source, at)
	switch k.language {
	case Python:
		if declaresCoding(source) {
			return nil, nil
		}
		p.Text = fmt.Sprintf("byte 0x%02x is not UTF-8: save the script as UTF-8, or declare its encoding in the first line (# coding: latin-1)", source[at])
		return nil, &p
	case Node:
		p.Text = fmt.Sprintf("byte 0x%02x is not UTF-8: Node reads U+FFFD instead", source[at])
	default:
		p.Text = fmt.Sprintf("byte 0x%02x is not UTF-8: it is passed on as it is", source[at])
	}
	return []Problem{p}, nil
}

// firstInvalid returns the offset of the first byte that is not UTF-8, or -1.
func firstInvalid(source []byte) int {
	if utf8.Valid(source) {
		return -1
	}
	for at := 0; ; {
		r, n := utf8.DecodeRune(source[at:])
		if r == utf8.RuneError && n <= 1 {
			return at
		}
		at += n
	}
}

func declaresCoding(source []byte) bool {
	first, rest, _ := bytes.Cut(source, []byte("\n"))
	if codingCookie().Match(first) {
		return true
	}
	second, _, _ := bytes.Cut(rest, []byte("\n"))
	first = bytes.TrimLeft(first, " \t\f")
	// The second line counts only below a blank line or a comment.
	return (len(bytes.TrimRight(first, "\r")) == 0 || first[0] == '#') && codingCookie().Match(second)
}
