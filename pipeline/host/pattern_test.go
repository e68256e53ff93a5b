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

// slow is what allows does, by trying all that a star can be.
func slow(pattern, word string) bool {
	before, after, found := strings.Cut(pattern, star)
	rest, ok := strings.CutPrefix(word, before)
	if !found || !ok {
		return word == pattern
	}
	for i := 0; i <= len(rest); i++ {
		if !strings.Contains(rest[:i], "/") && slow(after, rest[i:]) {
			return true
		}
	}
	return false
}

func FuzzMatch(f *testing.F) {
	f.Add("x a*b*c/d*", "x aabbc/d")
	f.Add("x /var/*/log **", "x /var/a/log -n 5")
	f.Add("git log *", "git log --output=x")
	f.Add("x '[a]'*", "x '[a]b'")
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
		if p.fits(args) && !p.each(args, blocks) {
			t.Errorf("%s allows %q, and would not block it", p, args)
		}
		if _, exact := p.fixed(); exact && p.Program() == words[0] && p.fits(args) && p.String() != words.String() {
			t.Errorf("%s is exact, and allows %s", p, words)
		}
		if len(args) < len(p.words)-1 || len(args) > len(p.words)-1 && !p.rest {
			if p.fits(args) {
				t.Fatalf("%s matches %d words", p, len(args))
			}
			return
		}
		want := true
		for i, one := range p.words[1:] {
			starred, up := strings.Contains(one, star), slices.Contains(strings.Split(args[i], "/"), "..")
			switch {
			case starred && one[:1] == star && strings.HasPrefix(args[i], "-"):
				want = false
			case one == star:
				want = want && args[i] != ""
			default:
				want = want && slow(one, args[i]) && !(starred && up)
			}
		}
		if got := p.fits(args); got != want {
			t.Errorf("%s matches %q: %v, want %v", p, args, got, want)
		}
	})
}
