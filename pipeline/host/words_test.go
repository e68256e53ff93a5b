package host

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, text string
		want       Words
	}{
		{"words", "git status --short", Words{"git", "status", "--short"}},
		{"blanks", "  git   status  ", Words{"git", "status"}},
		{"single quotes", "echo 'a $b `c` \\ * ~'", Words{"echo", "a $b `c` \\ * ~"}},
		{"double quotes", `echo "it's fine! * ; |"`, Words{"echo", "it's fine! * ; |"}},
		{"quotes inside of a word", `py'th'o"n" -c`, Words{"python", "-c"}},
		{"an empty word", `echo '' ""`, Words{"echo", "", ""}},
		{"a tilde that is none of the shell's", "git diff HEAD~1 a~b", Words{"git", "diff", "HEAD~1", "a~b"}},
		{"an equals sign later", "git log --since=2020 a=b", Words{"git", "log", "--since=2020", "a=b"}},
		{"a number sign inside", "echo a#b", Words{"echo", "a#b"}},
		{"letters of other scripts", "echo grüße 日本", Words{"echo", "grüße", "日本"}},
		{"quoted syntax", `echo '&&' ';' '|' '>'`, Words{"echo", "&&", ";", "|", ">"}},
		{"a shell's word, quoted", "'if' x", Words{"if", "x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.text)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Fatalf("got %q, %v; want %q", got, err, tt.want)
			}
			again, err := Parse(got.String())
			if err != nil || !slices.Equal(again, got) {
				t.Errorf("%q reads back as %q, %v", got.String(), again, err)
			}
		})
	}
}

// refusedSyntax are lines that a shell would not read as plain words, or that a person would not see as they are.
var refusedSyntax = []struct{ name, text string }{
	{"nothing", ""}, {"blanks only", "   "}, {"an empty program", "'' x"},
	{"a pipe", "ls | sh"}, {"a pipe with stderr", "ls |& sh"}, {"and", "ls && id"}, {"or", "ls || id"}, {"a semicolon", "ls; id"},
	{"a last semicolon", "ls;"},
	{"background", "ls & id"}, {"a last ampersand", "ls &"}, {"a new line", "ls\nid"}, {"a carriage return", "ls\rid"},
	{"a line continuation", "ls \\\nid"},
	{"output", "ls > /etc/passwd"}, {"output without blanks", "ls>x"}, {"appending", "ls >> x"}, {"input", "cat < /etc/shadow"},
	{"a here document", "cat << x"},
	{"a here string", "cat <<< x"}, {"a descriptor", "ls 2>&1"}, {"both", "ls &> x"},
	{"a variable", "echo $HOME"}, {"a variable in braces", "echo ${HOME}"}, {"a variable in double quotes", `echo "$HOME"`},
	{"an expansion that runs", "echo ${x@P}"},
	{"a substitution", "echo $(id)"}, {"a substitution in double quotes", `echo "$(id)"`}, {"backquotes", "echo `id`"},
	{"backquotes in double quotes", "echo \"`id`\""},
	{"arithmetic", "echo $((1+1))"}, {"old arithmetic", "echo $[1+1]"}, {"a process substitution", "cat <(id)"},
	{"one for output", "tee >(sh)"},
	{"a glob", "ls *"}, {"a question mark", "/bin/c?t x"}, {"a class", "ls [a-z]"}, {"braces", "echo {a,b}"}, {"a range", "echo {1..3}"},
	{"a program in braces", "{ls,-la}"},
	{"an extended glob", "ls @(a|b)"}, {"a home", "ls ~"}, {"another's home", "ls ~root/x"}, {"a home behind =", "x --dir=~/x"},
	{"a home behind a colon", "x a:~/x"},
	{"an assignment before", "LD_PRELOAD=x ls"}, {"an assignment alone", "PATH=x"}, {"an array", "a=(x y)"},
	{"an appending assignment", "PATH+=x ls"},
	{"a comment", "ls # x"}, {"only a comment", "# x"}, {"a dollar quote", "$'\\x73h' x"}, {"a localised quote", `echo $"x"`},
	{"history", "!!"}, {"a history word", "echo !$"}, {"history by ^", "^ls^rm"}, {"negation", "! ls"},
	{"a backslash", `l\s`}, {"a backslash before a blank", `ls a\ b`}, {"a backslash in double quotes", `echo "a\"b"`},
	{"a backslash at the end", `ls \`},
	{"a subshell", "(ls)"}, {"a group", "{ ls; }"}, {"a function", "ls() { id; }"}, {"if", "if true; then id; fi"},
	{"for", "for x in a; do id; done"},
	{"time", "time ls"}, {"coproc", "coproc ls"}, {"a test", "[[ -f x ]]"}, {"let", "let x=1"},
	{"declare (CVE-2026-22708)", "declare -x PAGER=x"},
	{"export (CVE-2026-22708)", "export PAGER=x"}, {"typeset (CVE-2026-22708)", "typeset -x PAGER=x"}, {"readonly", "readonly x=1"},
	{"local", "local x=1"},
	{"zsh's =program", "=ls x"}, {"zsh's =program as an argument", "echo =ls"}, {"an open quote", "echo 'x"},
	{"an open double quote", `echo "x`},
	{"NUL", "ls\x00id"}, {"an escape", "ls \x1b[2K"}, {"a tab", "ls\tx"}, {"a bell", "ls \a"}, {"a backspace", "ls x\b"},
	{"delete", "ls \x7f"}, {"a C1 control", "ls \u009b"},
	{"a right-to-left override", "ls \u202egpj.x"}, {"an isolate", "ls \u2066x"}, {"a zero-width space", "su\u200bdo x"},
	{"a zero-width joiner", "ls a\u200db"},
	{"a soft hyphen", "py\u00adthon x"}, {"a byte order mark", "\ufeffls"}, {"a no-break space", "ls\u00a0x"},
	{"an ideographic space", "ls\u3000x"}, {"a line separator", "ls\u2028id"},
	{"a paragraph separator", "ls\u2029id"}, {"a tag character", "ls \U000e0041"}, {"a variation selector", "ls a\ufe0f"},
	{"a Hangul filler", "ls \u3164"}, {"a blank Braille", "ls \u2800"},
	{"a private character", "ls \ue000"}, {"no UTF-8", "ls \xff"}, {"overlong UTF-8", "ls \xc0\xaf"},
	{"too long", "ls " + strings.Repeat("x", maxBytes)},
	{"too many words", strings.Repeat("x ", maxWords+1)},
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range refusedSyntax {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.text)
			var no *Refusal
			if !errors.As(err, &no) || no.Reason == "" || no.Remedy.IsZero() {
				t.Fatalf("got %q, %v; want a refusal with a remedy", got, err)
			}
			if _, err := ParsePattern(tt.text); err == nil && !strings.Contains(tt.text, "*") {
				t.Errorf("a pattern may be %q", tt.text)
			}
		})
	}
}

// shellSees are the words of a line, as a parser of shells reads it; nil if it sees anything else.
func shellSees(text string, variant syntax.LangVariant) (words []string) {
	file, err := syntax.NewParser(syntax.Variant(variant), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
	if err != nil || len(file.Last) > 0 || len(file.Stmts) != 1 {
		return nil
	}
	s := file.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(s.Comments)+len(s.Redirs)+len(call.Assigns) > 0 || s.Negated || s.Background || s.Coprocess || s.Disown ||
		s.Semicolon.IsValid() {
		return nil
	}
	for _, one := range call.Args {
		word := ""
		for _, part := range one.Parts {
			switch part := part.(type) {
			case *syntax.Lit:
				if strings.ContainsAny(part.Value, "*?[]{}\\") {
					return nil
				}
				word += part.Value
			case *syntax.SglQuoted:
				if part.Dollar {
					return nil
				}
				word += part.Value
			case *syntax.DblQuoted:
				for _, part := range part.Parts {
					lit, ok := part.(*syntax.Lit)
					if !ok || strings.Contains(lit.Value, `\`) {
						return nil
					}
					word += lit.Value
				}
			default:
				return nil
			}
		}
		words = append(words, word)
	}
	return words
}

func FuzzWords(f *testing.F) {
	for _, tt := range refusedSyntax {
		f.Add(tt.text)
	}
	f.Add(`git log --format='%h %s' -n 3 "it's"`)
	f.Add(`a''=b x=~ 1>x :~ a^b %1 +(x) "a"'b'c #`)
	f.Add("in x")
	f.Add("eval x")
	f.Fuzz(func(t *testing.T, text string) {
		words, err := Parse(text)
		if err != nil {
			return
		}
		for _, variant := range []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX, syntax.LangMirBSDKorn} {
			if sees := shellSees(text, variant); !slices.Equal(sees, words) {
				t.Fatalf("%q is %q to us, and %q to a shell (%v)", text, words, sees, variant)
			}
		}
		again, err := Parse(words.String())
		if err != nil || !slices.Equal(again, words) {
			t.Fatalf("%q is %q, which prints as %q and reads back as %q, %v", text, words, words.String(), again, err)
		}
		for _, w := range words {
			if strings.ContainsAny(w, "\x00\n\r\x1b") {
				t.Fatalf("%q has a control character", w)
			}
		}
	})
}
