package engine

import (
	"fmt"
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
		if got := OneLine(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// FuzzPlain checks that any text of an engine becomes safe and bounded.
func FuzzPlain(f *testing.F) {
	for _, s := range []string{"", "a", "\x1b[31mred", "\x1b]8;;http://x\x1b\\y", "\xff\xfe", "\u202e", "\x1b", "\x9b31m",
		strings.Repeat("ä", Longest)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := OneLine(s)
		if len(got) > Longest {
			t.Errorf("%d bytes", len(got))
		}
		if strings.ContainsFunc(got, safetext.Hidden) {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func TestTail(t *testing.T) {
	var tail Tail
	if got := tail.String(); got != "" {
		t.Errorf("of nothing: got %q", got)
	}
	for i := range 1000 {
		if n, err := fmt.Fprintf(&tail, "line %d\n", i); n < 7 || err != nil {
			t.Fatal(n, err)
		}
	}
	fmt.Fprint(&tail, "it \x1b[31mbr", "oke\r\n")
	if want := "line 997; line 998; line 999; it [31mbroke"; tail.String() != want {
		t.Errorf("got %q, want %q", tail.String(), want)
	}
	fmt.Fprint(&tail, strings.Repeat("a", 1<<20)+"end")
	if got := tail.String(); len(got) > Longest || len(tail.last) != tailSize || strings.Contains(got, "line") {
		t.Errorf("after much: %d bytes are kept, and %q is shown", len(tail.last), got)
	}
}
