package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestScreen(t *testing.T) {
	const end = "\x1b[!p\x1b[0m"
	for name, tt := range map[string]struct{ in, want, end string }{
		"text":                     {"plain\r\n\ttext\a\b ümläut 日本\x0e\x0f", "plain\r\n\ttext\a\b ümläut 日本\x0e\x0f", end},
		"what editors do":          {"\x1b[?1049h\x1b[2J\x1b[1;24r\x1b[12;40H\x1b[38;5;208m\x1b(0\x1b7\x1b8\x1b=\x1bM\x1b[?1049l", "\x1b[?1049h\x1b[2J\x1b[1;24r\x1b[12;40H\x1b[38;5;208m\x1b(0\x1b7\x1b8\x1b=\x1bM\x1b[?1049l", end},
		"questions to it":          {"\x1b[6n\x1b[c\x1b[?25$p", "\x1b[6n\x1b[c\x1b[?25$p", end},
		"a title":                  {"a\x1b]0;owned\ab", "ab", end},
		"the clipboard":            {"a\x1b]52;c;cm0gLXJmIC8=\x1b\\b", "ab", end},
		"a link":                   {"a\x1b]8;;http://evil.test\x1b\\text\x1b]8;;\x1b\\b", "atextb", end},
		"DCS, APC, PM, SOS":        {"a\x1bP$q\"p\x1b\\b\x1b_x\x1b\\c\x1b^x\x1b\\d\x1bXx\x1b\\e", "abcde", end},
		"screen's title":           {"a\x1bkowned\x1b\\b", "ab", end},
		"a string in one":          {"a\u009d0;owned\ab\u0090x\u009cc\u009b21td", "abc21td", end}, // CSI in one is none, and so its rest is text
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
		"too long":                 {"a\x1b[" + strings.Repeat("1", 300) + "mb", "a" + strings.Repeat("1", 300-longestSequence+2) + "mb", end},
		"left switched":            {"\x1b[?1049h\x1b[?25l\x1b[?1000;1006h\x1b[?7h", "\x1b[?1049h\x1b[?25l\x1b[?1000;1006h\x1b[?7h", "\x1b[?1000l\x1b[?1006l\x1b[?1049l\x1b[?25h" + end},
		"nothing":                  {"", "", ""},
	} {
		for size := range 3 { // in pieces of a byte, of two, and whole
			var out bytes.Buffer
			s := &screenFilter{w: &out}
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
		(&screenFilter{w: &whole}).Write(text)
		s := &screenFilter{w: &parts}
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
