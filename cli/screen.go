package cli

import (
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// screenFilter passes on what a program shows that has a person's terminal for itself. It may colour, move, clear and switch modes, as editors
// and shells do. What reaches past the screen is left out: strings (titles, the clipboard, links, and all else of OSC, DCS,
// APC, PM and SOS), what sizes windows or prints, and what has the terminal type words of the program's choice.
//
// It holds back an unfinished sequence or character, and nothing else.
type screenFilter struct {
	w      io.Writer
	held   []byte // of a sequence, or of a character; at most longestSequence
	within bool   // a string, which ends with BEL, ST, CAN or SUB
	wrote  bool
	modes  map[string]bool // private ones that were switched, and whether on
}

// longestSequence is from how many bytes on a sequence is none: no terminal has one as long.
const longestSequence = 256

// Write implements io.Writer.
func (s *screenFilter) Write(p []byte) (int, error) {
	text := append(s.held, p...)
	s.held = nil
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		n := token(text[i:])
		if n == 0 {
			s.held = append(s.held, text[i:]...)
			break
		}
		if s.passes(text[i : i+n]) {
			out = append(out, text[i:i+n]...)
		}
		i += n
	}
	if len(out) > 0 {
		s.wrote = true
		if _, err := s.w.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close puts back what the program has switched and not put back.
func (s *screenFilter) Close() error {
	if !s.wrote {
		return nil
	}
	var b strings.Builder
	for _, mode := range slices.Sorted(maps.Keys(s.modes)) {
		switch usual := mode == "7" || mode == "25"; { // lines wrap, and the cursor is seen
		case s.modes[mode] == usual:
		case usual:
			b.WriteString("\x1b[?" + mode + "h")
		default:
			b.WriteString("\x1b[?" + mode + "l")
		}
	}
	b.WriteString("\x1b[!p\x1b[0m") // margins, character sets, keypads; colours
	_, err := io.WriteString(s.w, b.String())
	return err
}

// token is the length of the sequence, control or character that text begins with, 0 if that is unfinished.
func token(text []byte) int {
	if text[0] != 0x1b {
		if !utf8.FullRune(text) {
			return 0
		}
		_, n := utf8.DecodeRune(text)
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

// passes says whether the terminal gets a token.
func (s *screenFilter) passes(t []byte) bool {
	r, _ := utf8.DecodeRune(t)
	switch {
	case s.within:
		ends := r == '\a' || r == 0x18 || r == 0x1a || r == 0x9c || r == 0x1b
		s.within = !ends || r == 0x1b && len(t) == 2 && opens(t[1])
		return false
	case r == utf8.RuneError && len(t) == 1:
		return false // terminals that do not know UTF-8 take some for controls
	case r >= 0x80 && r < 0xa0: // ESC and a letter, in one
		s.within = opens(byte(r - 0x40))
		return false
	case r != 0x1b:
		return r >= ' ' && r != 0x7f || strings.ContainsRune("\a\b\t\n\v\f\r\x0e\x0f", r)
	case len(t) < 2:
		return false
	case t[1] != '[':
		s.within = opens(t[1])
		return !s.within
	}
	return s.note(string(t[2:]))
}

// opens says whether ESC and this byte begin a string: DCS, SOS, OSC, PM, APC, and the title of screen(1).
func opens(b byte) bool { return strings.IndexByte("PX]^_k", b) >= 0 }

// note keeps in mind what modes a sequence behind CSI switches, and says whether it may pass. Of windows (t), one reports the
// title, which the program may have chosen; of media (i), one has all that follows printed; rectangles (*) tell what is shown.
func (s *screenFilter) note(sequence string) bool {
	last := len(sequence) - 1
	if last < 0 || sequence[last] < '@' || strings.IndexByte("ti", sequence[last]) >= 0 || strings.ContainsRune(sequence, '*') {
		return false
	}
	if on := sequence[last] == 'h'; sequence[0] == '?' && (on || sequence[last] == 'l') {
		if s.modes == nil {
			s.modes = map[string]bool{}
		}
		for mode := range strings.SplitSeq(sequence[1:last], ";") {
			if len(s.modes) < longestSequence && len(mode) <= 5 {
				s.modes[mode] = on
			}
		}
	}
	return true
}
