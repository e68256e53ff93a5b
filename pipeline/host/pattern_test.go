package host

import (
	"slices"
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
		{"docker restart **", "docker restart -t 5 web", true},
		{"git log -n *", "git log -n 5", true},
		{"git log -n *", "git log -n --output=x", false},
		{"cat /var/log/*.log", "cat /var/log/a.log", true},
		{"cat /var/log/*.log", "cat /var/log/a/b.log", false},
		{"cat /var/log/*.log", "cat /var/log/../../etc/x.log", false},
		{"cat /var/log/*", "cat /var/log/..", false},
		{"cat ../*", "cat ../..", false},
		{"x *.txt", "x a.txt", true},
		{"x *.txt", "x -rf.txt", false},
		{"x ''*", "x -rf", false},
		{"x --since=*", "x --since=1", true},
		{"x --since=*", "x --since=/etc/passwd", false},
		{"x '*'", "x '*'", true},
		{"x '*'", "x a", false},
		{"x a*b*c", "x abbbc", true},
		{"x a*b*c", "x ac", false},
		{"x aba*aba", "x ababa", false},
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
		if got := p.Program() == words[0] && p.fits(words[1:]); got != tt.want {
			t.Errorf("%s matches %s: %v, want %v", tt.pattern, tt.command, got, tt.want)
		}
		again, err := ParsePattern(p.String())
		if err != nil || again.String() != p.String() {
			t.Errorf("%s prints as %s, and that as %v, %v", tt.pattern, p, again, err)
		}
	}
}

func TestPatternRefuses(t *testing.T) {
	for _, text := range []string{"*", "**", "* x", "** x", "d* x", "'' x", "x ** y", "x a**", "x **b", "x ***", "x | y", "x; y", "x $y", "x ?", "x [a]", "x {a}"} {
		if p, err := ParsePattern(text); err == nil {
			t.Errorf("%q is the pattern %s", text, p)
		}
	}
}

// slow is what fits does, by trying all that a star can be.
func slow(t token, word string) bool {
	if len(t) == 0 {
		return word == ""
	}
	if !t[0].any {
		rest, ok := strings.CutPrefix(word, t[0].text)
		return ok && slow(t[1:], rest)
	}
	for i := 0; i <= len(word); i++ {
		if !strings.Contains(word[:i], "/") && slow(t[1:], word[i:]) {
			return true
		}
	}
	return false
}

func FuzzMatch(f *testing.F) {
	f.Add("x a*b*c/d*", "x aabbc/d")
	f.Add("x /var/*/log **", "x /var/a/log -n 5")
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
		if p.fits(args) && !p.each(args, token.anything) {
			t.Errorf("%s allows %q, and would not block it", p, args)
		}
		if !p.fits(args) {
			return
		}
		if len(args) < len(p.words)-1 || len(args) > len(p.words)-1 && !p.variadic {
			t.Fatalf("%s matches %d words", p, len(args))
		}
		for i, one := range p.words[1:] {
			star := slices.ContainsFunc(one, isAny)
			if whole := star && len(one) == 1; !whole && !slow(one, args[i]) {
				t.Errorf("%s matches %q", p, args[i])
			}
			if star && one[0].any && strings.HasPrefix(args[i], "-") {
				t.Errorf("%s lets the option %q in", p, args[i])
			}
		}
	})
}
