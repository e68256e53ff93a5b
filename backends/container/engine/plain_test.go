package engine

import (
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "",
		" it broke\r\n\there ":           "it broke   here",
		"\x1b]0;title\x07x\u202ey\x00":   "]0;titlexy",
		"\xff\u009b31m\u2066größe\ufffd": "31mgröße",
		"a\u3164\U000e0101b\u034f":       "ab",
	} {
		if got := Plain(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// Whatever an engine says, people get safe text of bounded length.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{"", "a", "\x1b[31mred", "\x1b]8;;http://x\x1b\\y", "\xff\xfe", "\u202e", "\x1b", "\x9b31m", strings.Repeat("ä", Longest)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Plain(s)
		if len(got) > Longest {
			t.Errorf("%d bytes", len(got))
		}
		if strings.ContainsFunc(got, safetext.Hidden) {
			t.Errorf("%q became %q", s, got)
		}
	})
}
