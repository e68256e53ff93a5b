package terminal

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// Filter copies a program's output to a person's terminal. Text, colours and the controls of progress
// bars pass; all else that a terminal would obey, or that would change how a line reads, is written
// out by Visible.
//
// It holds back an unfinished character or escape sequence, and nothing else. It writes whole
// sequences only, so that two filters on one terminal can't be played against each other.
type Filter struct {
	W        io.Writer
	Open     bool   // everything passes unchanged: W is no terminal, or the caller asked for it
	held     []byte // at most longestSequence bytes
	coloured bool   // the program has not put the colours back
}

// Write implements io.Writer.
func (f *Filter) Write(p []byte) (int, error) {
	if f.Open || len(f.held) == 0 && !slices.ContainsFunc(p, func(b byte) bool { return !passes(b) }) {
		return f.W.Write(p)
	}
	text := p
	if len(f.held) > 0 {
		text = append(f.held, p...)
	}
	out, rest := f.clean(make([]byte, 0, len(text)+len(text)/8), text, false)
	f.held = bytes.Clone(rest)
	if err := f.put(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what was held back, and puts the colours back if the program has not.
func (f *Filter) Close() error {
	out, _ := f.clean(nil, f.held, true)
	f.held = nil
	if f.coloured {
		out = append(out, "\x1b[0m"...)
		f.coloured = false
	}
	return f.put(out)
}

// put writes out to W as one Write, if there is anything.
func (f *Filter) put(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	n, err := f.W.Write(out)
	if err == nil && n < len(out) {
		err = io.ErrShortWrite
	}
	return err
}

// passes reports whether a byte passes by itself: the printable characters of ASCII, and those that move to another
// column of the line or to the next line.
func passes(b byte) bool {
	return b >= ' ' && b < 0x7f || b == '\n' || b == '\r' || b == '\t' || b == '\b'
}

// clean appends text to out with all that must not pass written out. rest is an unfinished character or
// sequence; at the end there is none, since it is written out, too.
func (f *Filter) clean(out, text []byte, end bool) (clean, rest []byte) {
	for i := 0; i < len(text); {
		n := 1
		switch {
		case passes(text[i]):
			for i+n < len(text) && passes(text[i+n]) {
				n++
			}
			out = append(out, text[i:i+n]...)
		case text[i] == 0x1b:
			if n = token(text[i:]); n == 0 && !end {
				return out, text[i:]
			}
			n = cmp.Or(n, len(text)-i)
			if one := text[i : i+n]; harmless().Match(one) {
				out = append(out, one...)
				f.note(one)
			} else {
				out = append(out, Visible(string(one))...)
			}
		case !utf8.FullRune(text[i:]) && !end:
			return out, text[i:]
		default:
			_, n = utf8.DecodeRune(text[i:])
			out = append(out, Visible(string(text[i:i+n]))...)
		}
		i += n
	}
	return out, nil
}

// harmless are the escape sequences that may pass: ESC [ numbers m for colours, and ESC [ K, which clears the line, or a part of it.
var harmless = lazy.Regexp(`^\x1b\[([0-9;:]*m|[0-2]?K)$`)

// note records whether the colours have to be reset after this sequence.
func (f *Filter) note(sequence []byte) {
	if numbers, ok := bytes.CutSuffix(sequence[2:], []byte("m")); ok {
		f.coloured = len(bytes.Trim(numbers, "0;")) > 0
	}
}
