package console

import (
	"strings"
	"testing"
)

func TestIncomplete(t *testing.T) {
	for _, tt := range []struct {
		language, text string
		want           bool
	}{
		{"python", "x = 1", false}, {"python", "", false}, {"python", "if x:", true}, {"python", "if x:\n  y", true},
		{"python", "if x:\n  y\n", false},
		{"python", "f(1,", true}, {"python", "f(1,\n2)", false}, {"python", "'''a\nb", true}, {"python", "'''a\nb'''", false},
		{"python", `'unclosed`, false},
		{"python", "x = 1 + \\", true}, {"python", "# if x:", false}, {"python", "x = {'a': ')'}", false}, {"python", "@d", true},
		{"python", "x: int", false}, {"python", "d = {\n 'a':", true}, {"python", "'it''s :'", false}, {"python", "for i in a: # why (", true},
		{"python", "def f(\n a,\n):", true}, {"python", "f(\n\n", false}, {"python", `"\"" + "("`, false}, {"python", "print('é')", false},
		{"python", "x = 'a:'", false},
		{"python", "for i in x: print(i)", false}, {"python", "l = lambda:", true},
		{"node", "let x = 1", false}, {"node", "function f() {", true}, {"node", "function f() {\n}", false}, {"node", "`a\nb", true},
		{"node", "/[(]/.test(x)", false},
		{"node", "x = a / b / c", false}, {"node", "x =", true}, {"node", "i++", false}, {"node", "a => ", true}, {"node", "/* a", true},
		{"node", "// {", false},
		{"node", "'it(", false}, {"node", "x = /\\/(/", false}, {"node", "f(", true}, {"node", "[1,2].map(x => x)", false},
		{"shell", "echo hi", false}, {"shell", "for i in a; do", true}, {"shell", "for i in a; do\necho\ndone", false},
		{"shell", "echo 'a", true}, {"shell", "cat <<E\nx", true},
		{"shell", "cat <<E\nx\nE", false}, {"shell", "echo a \\", true}, {"shell", "if", true}, {"shell", "echo )", false},
		{"shell", "f() {", true},
		{"r", "x <- 1", false}, {"r", "x <-", true}, {"r", "f <- function(a) {", true}, {"r", "1 +", true}, {"r", "'a\nb'", false},
		{"r", "'a", true}, {"r", "x |>", true},
	} {
		if got := Incomplete(tt.language, strings.Split(tt.text, "\n")); got != tt.want {
			t.Errorf("%s %q: unfinished %v, want %v", tt.language, tt.text, got, tt.want)
		}
	}
}

// FuzzIncomplete checks that Incomplete terminates for any input, and that two empty lines end everything.
func FuzzIncomplete(f *testing.F) {
	for _, s := range []string{"'", "\\", "/", "`${", "/*", "<<E", "@", ")"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, language := range []string{"python", "node", "shell", "r", "other"} {
			Incomplete(language, strings.Split(text, "\n"))
			if Incomplete(language, strings.Split(text+"\n\n", "\n")) {
				t.Errorf("%s %q goes on for ever", language, text)
			}
		}
	})
}
