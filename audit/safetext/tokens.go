package safetext

import (
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// Tokens splits a program's output into terminal tokens: runs of ASCII text, line ends, characters, controls, and
// escape sequences. It holds back an unfinished token of at most longestSequence bytes. The zero value is ready to use.
//
// charmbracelet/x/ansi is not used: its decoder needs a string that BEL ends to be whole, supports neither screen's
// titles nor C1 controls in UTF-8, and has three dependencies.
type Tokens struct {
	held   []byte
	within bool // a string
}

// longestSequence bounds a sequence, in bytes; a longer one counts as broken off. Real sequences are shorter.
const longestSequence = 256

// Split returns the tokens of the held bytes and p, each with whether it belongs to a string (DCS, SOS, OSC, PM, APC,
// or the title of screen(1)), which a terminal does not show. With end, nothing is held back. The caller must take all
// tokens.
func (s *Tokens) Split(p []byte, end bool) iter.Seq2[[]byte, bool] {
	return func(yield func([]byte, bool) bool) {
		text := append(s.held, p...)
		s.held = nil
		for len(text) > 0 {
			n := tokenLength(text)
			if n == 0 && !end {
				s.held = slices.Clone(text)
				return
			}
			if n == 0 {
				n = len(text)
			}
			if !yield(text[:n], s.inString(text[:n])) {
				return
			}
			text = text[n:]
		}
	}
}

// tokenLength returns the length of the token at the start of text, or 0 if it is unfinished.
func tokenLength(text []byte) (n int) {
	for n < len(text) && (text[n] >= ' ' && text[n] < 0x7f || text[n] == '\n' || text[n] == '\r' || text[n] == '\t') {
		n++
	}
	switch {
	case n > 0:
		return n
	case text[0] != 0x1b && !utf8.FullRune(text):
		return 0
	case text[0] != 0x1b:
		_, n = utf8.DecodeRune(text)
		return n
	}
	for i := 1; i < len(text); i++ {
		switch b := text[i]; {
		case b < ' ' || b >= 0x7f || i == longestSequence: // it is broken off
			return i
		case i == 1 && b == '[', b < '0':
		case text[1] == '[' && b < '@':
		default:
			return i + 1
		}
	}
	return 0
}

// inString reports whether a token belongs to a string, which ends with BEL, ST, CAN, SUB, or ESC.
func (s *Tokens) inString(token []byte) bool {
	opens := func(b rune) bool { return strings.ContainsRune("PX]^_k", b) }
	was := s.within
	switch r, _ := utf8.DecodeRune(token); {
	case r == 0x1b:
		s.within = len(token) == 2 && opens(rune(token[1]))
	case r >= 0x80 && r < 0xa0: // a C1 control: ESC and a letter in one character
		s.within = was && r != 0x9c || opens(r-0x40)
	case was:
		s.within = r != '\a' && r != 0x18 && r != 0x1a
	}
	return was || s.within
}

// ParseControl returns the parts of a control sequence: ECMA-48, 5.4.
func ParseControl(token []byte) (private, numbers, final string, ok bool) {
	final, ok = strings.CutPrefix(string(token), "\x1b[")
	if ok && final != "" && strings.Contains("<=>?", final[:1]) {
		private, final = final[:1], final[1:]
	}
	rest := strings.TrimLeft(final, "0123456789;:")
	numbers, final = final[:len(final)-len(rest)], rest
	last := len(final) - 1
	ok = ok && last >= 0 && final[last] >= '@' && strings.Trim(final[:last], " !\"#$%&'()*+,-./") == ""
	return private, numbers, final, ok
}
