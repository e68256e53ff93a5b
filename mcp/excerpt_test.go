package mcp

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestExcerpt(t *testing.T) {
	lines := ""
	for i := range 1000 {
		lines += fmt.Sprintf("line %d\n", i)
	}
	for name, test := range map[string]struct{ s, head, tail string }{
		"lines":       {lines, "line 0\n", "line 999\n"},
		"one line":    {strings.Repeat("x", 10000), "xxx", "xxx"},
		"characters":  {strings.Repeat("ä€", 5000), "ä€", "ä€"},
		"binary":      {strings.Repeat("\xff\x00", 5000), `\xff\u0000`, `\xff\u0000`},
		"barely":      {strings.Repeat("\x1b", 999), `\u001b`, `\u001b`},
		"binary tail": {strings.Repeat("x", 5000) + strings.Repeat("\xff", 5000), "xxx", `\xff`},
	} {
		got, whole := excerpt(test.s, 1000, "; look there")
		if whole || len(got) > 1100 || !utf8.ValidString(got) || !strings.Contains(got, " bytes left out here; look there") {
			t.Errorf("%s: whole %v, %d bytes: %q", name, whole, len(got), got)
		}
		if !strings.HasPrefix(got, test.head) || !strings.HasSuffix(got, test.tail) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got, whole := excerpt("short\n\x07", 1000, ""); !whole || got != "short\n\\u0007" {
		t.Errorf("got %q, %v", got, whole)
	}
	head := "head " + strings.Repeat("-", 2000)
	got, _ := excerpt(head+strings.Repeat("+", 2000)+" tail", 1000, "")
	var left int
	if _, after, ok := strings.Cut(got, "[... "); ok {
		fmt.Sscan(after, &left)
	}
	if left != 3010 {
		t.Errorf("%d bytes are said to be missing, in %q", left, got)
	}
}

func TestReadable(t *testing.T) {
	for given, want := range map[string]string{
		"tab\t, line\r\n":                               "tab\t, line\r\n",
		"\x1b[31m\x7f\u009b":                            `\u001b[31m\u007f\u009b`,
		"a\u200bb\u200c\u200d\u2060\ufeff\u00adc":       `a\u200bb\u200c\u200d\u2060\ufeff\u00adc`,
		"\u202e\u2066\u061c\u200f\u2028\u2029":          `\u202e\u2066\u061c\u200f\u2028\u2029`,
		"\U000e0041\U000e007f\U000e0001 \U000e0101":     `\U000e0041\U000e007f\U000e0001 \U000e0101`,
		"x\ufe0f\ufe01\u3164\u115f\u034f":               `x\ufe0f\ufe01\u3164\u115f\u034f`,
		"\xff\ufffd":                                    `\xff\ufffd`,
		"❤\ufe0f 1\ufe0f\u20e3 👩\u200d💻 🏳\ufe0f\u200d🌈": "❤\ufe0f 1\ufe0f\u20e3 👩\u200d💻 🏳\ufe0f\u200d🌈",
		"❤\ufe0f\ufe0f":                                 "❤\ufe0f" + `\ufe0f`,
		"می\u200cخواهم क्\u200dष ":                      "می\u200cخواهم क्\u200dष ",
		"äöü €漢字 ∑":                                     "äöü €漢字 ∑",
	} {
		got := readable(given)
		if got != want || readable(got) != got {
			t.Errorf("%+q: got %+q, want %+q; again %+q", given, got, want, readable(got))
		}
	}
}
