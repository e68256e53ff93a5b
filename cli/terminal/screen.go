package terminal

import (
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// ScreenFilter filters the output of a program that has a terminal for itself. Colours, cursor movement, clearing and
// modes may pass, as editors and shells need them. Everything with effects beyond the screen is removed: strings
// (titles, the clipboard, links, and all else of OSC, DCS, APC, PM and SOS), window sizes, printing, answers of the
// terminal with text of the program's choice, and states that Close could not undo. It is an allowlist: each terminal
// has sequences of its own.
//
// It holds back an unfinished sequence or character, and nothing else.
type ScreenFilter struct {
	W      io.Writer
	tokens safetext.Tokens
	wrote  bool
	modes  map[string]bool // modes that were switched, and whether on; private ones with a question mark
	styled bool            // the cursor shape was changed
	keyed  bool            // the key encoding was changed
}

// maxModes bounds the modes that are remembered for Close; sequences beyond it do not pass. No terminal has as many.
const maxModes = 512

// Write implements io.Writer.
func (s *ScreenFilter) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for t, inString := range s.tokens.Split(p, false) {
		if !inString && s.isAllowed(t) {
			out = append(out, t...)
		}
	}
	if len(out) > 0 {
		s.wrote = true
		if _, err := s.W.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close undoes the program's changes that it has not undone itself.
func (s *ScreenFilter) Close() error {
	if !s.wrote {
		return nil
	}
	var b strings.Builder
	if s.keyed {
		b.WriteString("\x1b[>4m\x1b[<99u\x1b[=0u") // the alternate screen has its own flags
	}
	for _, mode := range slices.Sorted(maps.Keys(s.modes)) {
		if usual := isDefaultMode(mode); s.modes[mode] != usual {
			b.WriteString("\x1b[" + mode + map[bool]string{true: "h", false: "l"}[usual])
		}
	}
	if s.keyed {
		b.WriteString("\x1b[<99u\x1b[=0u")
	}
	if s.styled {
		b.WriteString("\x1b[0 q")
	}
	// Margins, keypad, character sets, colours: not all terminals know the first sequence, which resets all of them.
	b.WriteString("\x1b[!p\x1b7\x1b[r\x1b8\x1b>\x1b(B\x0f\x1b[0m")
	_, err := io.WriteString(s.W, b.String())
	return err
}

// inputModes are the modes in which a terminal reports more than keys: the mouse, its focus, pasted text.
const inputModes = "?9 ?1000 ?1001 ?1002 ?1003 ?1004 ?1005 ?1006 ?1015 ?1016 ?2004"

// Suspend returns a text that clears the screen for others, and a text that gives it back to the program. If the program
// is on the alternate screen, which terminals don't save, it has to draw it again.
func (s *ScreenFilter) Suspend() (leave, back string, drawsAgain bool) {
	drawsAgain = s.modes["?1049"] || s.modes["?1047"] || s.modes["?47"]
	for mode := range strings.FieldsSeq(inputModes) {
		if s.modes[mode] {
			leave, back = leave+"\x1b["+mode+"l", back+"\x1b["+mode+"h"
		}
	}
	if visible, changed := s.modes["?25"]; changed && !visible {
		leave, back = leave+"\x1b[?25h", back+"\x1b[?25l"
	}
	leave += "\x1b[?2026l" // updates are shown at once
	if !drawsAgain {
		leave, back = leave+"\x1b[?1049h", "\x1b[?1049l"+back
	}
	if s.keyed { // each screen has its own stack of key encodings
		leave, back = leave+"\x1b[>0u", "\x1b[<u"+back
	}
	return leave + "\x0f\x1b(B\x1b[0m\x1b[2J\x1b[H", "\x1b[0m" + back, drawsAgain
}

// isDefaultMode reports whether a mode is on by default: no local echo; keys repeat, lines wrap, the cursor is visible, the
// wheel scrolls on the alternate screen, and Alt and NumLock are sent as shells expect.
func isDefaultMode(mode string) bool {
	return slices.Contains([]string{"12", "?7", "?8", "?25", "?1007", "?1034", "?1035", "?1036"}, mode)
}

// isAllowed reports whether a token outside of strings may pass.
func (s *ScreenFilter) isAllowed(t []byte) bool {
	r, _ := utf8.DecodeRune(t)
	switch {
	case r == utf8.RuneError && len(t) == 1, r >= 0x80 && r < 0xa0:
		return false // terminals without UTF-8 take some for controls, which are ESC and a letter in one
	case r != 0x1b:
		return r >= ' ' && r != 0x7f || strings.ContainsRune("\a\b\t\n\v\f\r\x0e\x0f", r)
	case len(t) < 2 || t[1] != '[':
		return isAllowedEscape(t[1:])
	}
	private, numbers, final, ok := safetext.ParseControl(t)
	return ok && s.recordChanges(private, numbers, final)
}

// isAllowedEscape reports whether the bytes after ESC may pass: character sets of one byte, sizes of lines, and those that
// move, save, restore and reset. Not: other encodings (%), in which text contains controls; answers with controls of
// one byte (SP); screen's messages (!).
func isAllowedEscape(t []byte) bool {
	if len(t) == 1 {
		return strings.IndexByte("6789=>DEMNOZ\\cgno|}~", t[0]) >= 0
	}
	return len(t) == 2 && strings.IndexByte("()*+-./#", t[0]) >= 0
}

// recordChanges records the changes of a control sequence that Close must undo, and reports whether it may pass.
func (s *ScreenFilter) recordChanges(private, numbers, final string) bool {
	switch private + final {
	case "@", "A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "P", "S", "T", "X", "Z", "`", "a", "b", "d", "e", "f", "m", "r",
		"s", "u",
		" @", " A", "'}", "'~", "$r", "$v", "$x", "$z", "${", "\"q", "!p", "?J", "?K":
	case "c", "=c", ">c", "n", "?n", "$p", "?$p", ">q", "?u", "?m": // queries
	case "h", "l", "?h", "?l":
		return s.recordModes(private, strings.Split(numbers, ";"), final == "h")
	case " q":
		s.styled = true
	case ">u", "<u", "=u":
		s.keyed = true
	case ">m":
		s.keyed = true
		return numbers == "4" || strings.HasPrefix(numbers, "4;")
	default:
		return false
	}
	return true
}

// recordModes records switched modes and reports whether the change may pass. Modes that emulate another terminal (2, 38) or
// resize the window (3, 40) may not.
func (s *ScreenFilter) recordModes(private string, numbers []string, on bool) bool {
	for i, n := range numbers {
		n = strings.TrimLeft(n, "0") // as terminals parse it
		numbers[i] = private + n
		if n == "" || len(n) > 5 || strings.Contains(n, ":") || slices.Contains([]string{"?2", "?3", "?38", "?40"}, numbers[i]) {
			return false
		}
	}
	if s.modes == nil {
		s.modes = map[string]bool{}
	}
	if len(s.modes)+len(numbers) > maxModes {
		return false
	}
	for _, n := range numbers {
		s.modes[n] = on
	}
	return true
}
