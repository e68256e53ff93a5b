package terminal

import (
	"bytes"
	"strings"
	"testing"
)

func TestScreen(t *testing.T) {
	const end = "\x1b[!p\x1b7\x1b[r\x1b8\x1b>\x1b(B\x0f\x1b[0m"
	const keys = "\x1b[<99u\x1b[=0u"
	for name, tt := range map[string]struct{ in, want, end string }{
		"text": {"plain\r\n\ttext\a\b ümläut 日本\x0e\x0f", "plain\r\n\ttext\a\b ümläut 日本\x0e\x0f", end},
		"what editors do": {"\x1b[?1049h\x1b[2J\x1b[1;24r\x1b[12;40H\x1b[38;5;208m\x1b(0\x1b7\x1b8\x1b=\x1bM\x1b[?1049l",
			"\x1b[?1049h\x1b[2J\x1b[1;24r\x1b[12;40H\x1b[38;5;208m\x1b(0\x1b7\x1b8\x1b=\x1bM\x1b[?1049l", end},
		"questions to it":   {"\x1b[6n\x1b[c\x1b[?25$p", "\x1b[6n\x1b[c\x1b[?25$p", end},
		"a title":           {"a\x1b]0;owned\ab", "ab", end},
		"the clipboard":     {"a\x1b]52;c;cm0gLXJmIC8=\x1b\\b", "ab", end},
		"a link":            {"a\x1b]8;;http://evil.test\x1b\\text\x1b]8;;\x1b\\b", "atextb", end},
		"DCS, APC, PM, SOS": {"a\x1bP$q\"p\x1b\\b\x1b_x\x1b\\c\x1b^x\x1b\\d\x1bXx\x1b\\e", "abcde", end},
		"screen's title":    {"a\x1bkowned\x1b\\b", "ab", end},
		// CSI in one byte is not one in UTF-8, and so its rest is text
		"a string in one":          {"a\u009d0;owned\ab\u0090x\u009cc\u009b21td", "abc21td", end},
		"a string that never ends": {"a\x1b]0;" + strings.Repeat("x", 10_000), "a", end},
		"broken off by CAN":        {"a\x1b]0;x\x18b", "ab", end},
		"broken off by a sequence": {"a\x1b]0;x\x1b[31mb", "ab", end},
		"string after string":      {"a\x1b]0;x\x1b]52;c;eA==\ab", "ab", end},
		"the title told":           {"a\x1b[21tb", "ab", end},
		"the window":               {"a\x1b[8;10;10tb\x1b[3;0;0t", "ab", end},
		"the printer":              {"a\x1b[5ib\x1b[?5i", "ab", end},
		"what is shown, told":      {"a\x1b[1;1;1;1;1;1*yb", "ab", end},
		"an answer of its choice":  {"a\x05b", "ab", end},
		"not UTF-8":                {"a\x9d0;x\xff\x1b", "a0;x", end},
		"too long":                 {"a\x1b[" + strings.Repeat("1", 300) + "mb", "a" + strings.Repeat("1", 300-256+2) + "mb", end},
		"left switched": {"\x1b[?1049h\x1b[?25l\x1b[?1000;1006h\x1b[?7h", "\x1b[?1049h\x1b[?25l\x1b[?1000;1006h\x1b[?7h",
			"\x1b[?1000l\x1b[?1006l\x1b[?1049l\x1b[?25h" + end},
		"nothing": {"", "", ""},

		"another encoding":          {"a\x1b%@\u05dd52;c;eA==\a", "a\u05dd52;c;eA==\a", end}, // the character's second byte begins a string there
		"answers in C1":             {"a\x1b Gb", "ab", end},
		"screen's message":          {"a\x1b!owned\x1b\\b", "awned\x1b\\b", end},
		"132 columns":               {"a\x1b[?40h\x1b[?3h\x1b[?25;003hb\x1b[132$|", "ab", end},
		"another terminal":          {"a\x1b[?2lb\x1b[?38hc\x1b[61\"pd", "abcd", end},
		"another console":           {"a\x1b[12;3]b", "ab", end},
		"a locator":                 {"a\x1b[1'zb", "ab", end},
		"tabulators":                {"a\x1b[3gb\x1bHc", "abc", end},
		"modes by a number as long": {"\x1b[?000001000ha\x1b[?1000000001000hb", "\x1b[?000001000hab", "\x1b[?1000l" + end},
		"modes by other ways":       {"a\x1b[?1000:1hb\x1b[?1000rc\x1b[?hd\x1b[1?25le", "abcde", end},
		"a locked keyboard":         {"\x1b[2h\x1b[12l\x1b[4;20h", "\x1b[2h\x1b[12l\x1b[4;20h", "\x1b[12h\x1b[2l\x1b[20l\x1b[4l" + end},
		"keys of their own": {"\x1b[>1u\x1b[=5;1u\x1b[?1049h\x1b[>31u", "\x1b[>1u\x1b[=5;1u\x1b[?1049h\x1b[>31u",
			"\x1b[>4m" + keys + "\x1b[?1049l" + keys + end},
		"modified keys":      {"\x1b[>4;2m\x1b[>1;3m\x1b[>0n", "\x1b[>4;2m", "\x1b[>4m" + keys + keys + end},
		"the cursor's shape": {"\x1b[5 qa", "\x1b[5 qa", "\x1b[0 q" + end},
		"what repeats":       {"\x1b[?8l\x1b[?1007l\x1b[?1034h", "\x1b[?8l\x1b[?1007l\x1b[?1034h", "\x1b[?1007h\x1b[?8h" + end},
	} {
		for size := range 3 { // in pieces of a byte, of two, and whole
			var out bytes.Buffer
			s := &ScreenFilter{W: &out}
			for rest := []byte(tt.in); len(rest) > 0; {
				n := min(len(rest), []int{1, 2, len(tt.in)}[size])
				if written, err := s.Write(rest[:n]); err != nil || written != n {
					t.Fatalf("%s: %d of %d bytes, %v", name, written, n, err)
				}
				rest = rest[n:]
			}
			if got := out.String(); got != tt.want {
				t.Errorf("%s: got %q, want %q", name, got, tt.want)
			}
			out.Reset()
			if s.Close(); out.String() != tt.end {
				t.Errorf("%s: at the end %q, want %q", name, out.String(), tt.end)
			}
		}
	}
}

func FuzzScreen(f *testing.F) {
	f.Add([]byte("a\x1b]0;x\x1b[?25lb"), uint8(3))
	f.Fuzz(func(t *testing.T, text []byte, cut uint8) {
		var whole, parts bytes.Buffer
		(&ScreenFilter{W: &whole}).Write(text)
		s := &ScreenFilter{W: &parts}
		n := min(int(cut), len(text))
		s.Write(text[:n])
		s.Write(text[n:])
		if !bytes.Equal(whole.Bytes(), parts.Bytes()) {
			t.Errorf("%q in one piece, %q in two", whole.Bytes(), parts.Bytes())
		}
		for _, opener := range []string{"\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\x1bk", "\x05"} {
			if strings.Contains(whole.String(), opener) {
				t.Errorf("%q lets %q through", whole.Bytes(), opener)
			}
		}
	})
}
