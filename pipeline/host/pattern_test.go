package host

import (
	"strings"
	"testing"
)

func TestPattern(t *testing.T) {
	tests := []struct {
		pattern, command string
		want             bool
	}{
		{"docker restart *", "docker restart web", true},
		{"docker restart *", "docker restart", false},
		{"docker restart *", "docker restart web db", false},
		{"docker restart *", "docker restart -t5", false},
		{"docker restart *", "docker restart --", false},
		{"docker restart *", "docker restart ''", false},
		{"docker restart *", "docker stop web", false},
		{"docker restart *", "docker 'restart web'", false},
		{"docker restart **", "docker restart", true},
		{"docker restart **", "docker restart web db", true},
		{"docker restart **", "docker restart web -t5", false},
		{"docker restart **", "docker restart ''", false},
		{"git log -n *", "git log -n 5", true},
		{"git log -n *", "git log -n --output=x", false},
		{"cat *", "cat /var/log/a.log", true},
		{"cat *", "cat -", false},
		{"cat *", "cat @x", false},
		{"cat *", "cat x@y", true},
		{"cat *", "cat a=b", false},
		{"cat *", "cat '='", false},
		{"cat * x", "cat -n x", false},
		{"cat @x * -n", "cat @x y -n", true},
		{"x '*'", "x '*'", true},
		{"x '*'", "x a", false},
		{"x", "x", true},
		{"x", "x y", false},
		{"x a ** ", "x a", true},
	}
	for _, tt := range tests {
		p, err := ParsePattern(tt.pattern)
		words, err2 := Parse(tt.command)
		if err != nil || err2 != nil {
			t.Fatalf("%s: %v; %s: %v", tt.pattern, err, tt.command, err2)
		}
		if got := p.Program() == words[0] && p.matches(words[1:]); got != tt.want {
			t.Errorf("%s matches %s: %v, want %v", tt.pattern, tt.command, got, tt.want)
		}
		again, err := ParsePattern(p.String())
		if err != nil || again.String() != p.String() {
			t.Errorf("%s prints as %s, and that as %v, %v", tt.pattern, p, again, err)
		}
	}
}

func TestPatternRefuses(t *testing.T) {
	for _, text := range []string{"*", "**", "* x", "** x", "d* x", "'' x", "x ** y", "x a**", "x **b", "x ***", "x a*", "x *.txt",
		"x --since=*", "x | y", "x; y", "x $y", "x ?", "x [a]", "x {a}"} {
		if p, err := ParsePattern(text); err == nil {
			t.Errorf("%q is the pattern %s", text, p)
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("x * y **", "x a y b")
	f.Add("git log *", "git log --output=x")
	f.Fuzz(func(t *testing.T, pattern, command string) {
		p, err := ParsePattern(pattern)
		if err != nil {
			return
		}
		if again, err := ParsePattern(p.String()); err != nil || again.String() != p.String() {
			t.Fatalf("%q prints as %q, which is %v, %v", pattern, p, again, err)
		}
		words, err := Parse(command)
		if err != nil || len(command) > 200 {
			return
		}
		args := words[1:]
		if p.matches(args) && !p.blocks(args) {
			t.Errorf("%s allows %q, and would not block it", p, args)
		}
		if _, exact := p.fixed(); exact && p.Program() == words[0] && p.matches(args) && p.String() != words.String() {
			t.Errorf("%s is exact, and allows %s", p, words)
		}
		if len(args) < len(p.words)-1 || len(args) > len(p.words)-1 && !p.rest {
			if p.matches(args) {
				t.Fatalf("%s matches %d words", p, len(args))
			}
			return
		}
		for i, word := range args {
			starred := i >= len(p.words)-1 || p.words[i+1] == star
			if p.matches(args) && (!starred && word != p.words[i+1] || starred && (word == "" || word[0] == '-' || word[0] == '@' ||
				strings.Contains(word, "="))) {
				t.Errorf("%s allows %q", p, args)
			}
		}
	})
}
