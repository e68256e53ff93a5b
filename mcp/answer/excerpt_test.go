package answer

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
		got := Excerpt(test.s, 1000, "; look there")
		if len(got) > 1100 || !utf8.ValidString(got) || !strings.Contains(got, " bytes omitted; look there") {
			t.Errorf("%s: %d bytes: %q", name, len(got), got)
		}
		if !strings.HasPrefix(got, test.head) || !strings.HasSuffix(got, test.tail) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if got := Excerpt("short\n\x07", 1000, ""); got != "short\n\\u0007" {
		t.Errorf("got %q", got)
	}
	head := "head " + strings.Repeat("-", 2000)
	got := Excerpt(head+strings.Repeat("+", 2000)+" tail", 1000, "")
	var left int
	if _, after, ok := strings.Cut(got, "[... "); ok {
		fmt.Sscan(after, &left)
	}
	if left != 3010 {
		t.Errorf("%d bytes are said to be missing, in %q", left, got)
	}
}
