package terminal

import (
	"io"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// Filter copies a program's output to a person's terminal. Text, colours and the controls of progress
// bars pass; all else that a terminal would obey, or that would change how a line reads, is written
// out by Visible.
//
// It holds back an unfinished character or escape sequence, and nothing else. It writes whole
// sequences only, so that two filters on one terminal can't be played against each other.
type Filter struct {
	W        io.Writer
	Open     bool // everything passes unchanged: W is not a terminal, or the caller asked for it
	tokens   safetext.Tokens
	coloured bool // the program has not reset the colours
}

// Write implements io.Writer.
func (f *Filter) Write(p []byte) (int, error) {
	if f.Open {
		return f.W.Write(p)
	}
	if err := f.flush(f.clean(p, false)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes the held bytes, and resets the colours if the program has not.
func (f *Filter) Close() error {
	out := f.clean(nil, true)
	if f.coloured {
		out = append(out, "\x1b[0m"...)
		f.coloured = false
	}
	return f.flush(out)
}

// flush writes out to W in one Write, unless it is empty.
func (f *Filter) flush(out []byte) error {
	if len(out) == 0 {
		return nil
	}
	n, err := f.W.Write(out)
	if err == nil && n < len(out) {
		err = io.ErrShortWrite
	}
	return err
}

// clean returns text with everything that must not pass escaped. Two escape sequences may pass: ESC [ numbers m, for
// colours, and ESC [ K, which clears a line or a part of it.
func (f *Filter) clean(text []byte, end bool) []byte {
	out := make([]byte, 0, len(text)+len(text)/8)
	for t := range f.tokens.Split(text, end) {
		if t[0] >= ' ' && t[0] < 0x7f || strings.IndexByte("\n\r\t\b", t[0]) >= 0 {
			out = append(out, t...)
			continue
		}
		private, numbers, final, ok := safetext.ParseControl(t)
		switch colour := private+final == "m"; {
		case ok && colour, ok && private+final == "K" && slices.Contains([]string{"", "0", "1", "2"}, numbers):
			out = append(out, t...)
			if colour {
				f.coloured = strings.Trim(numbers, "0;") != ""
			}
		default:
			out = append(out, Visible(string(t))...)
		}
	}
	return out
}
