package vault

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestReadEnvFile(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"plain":                 {"A=one\nB=two", "A=one|B=two"},
		"blank lines, comments": {"\n# A=1\n  # x\nA=one\n\n", "A=one"},
		"crlf":                  {"A=one\r\nB=\"x\r\ny\"\r\n", "A=one|B=x\ny"},
		"byte order mark":       {"\ufeffA=one", "A=one"},
		"export":                {"export A=one\nexport  B = 'two'\n", "A=one|B=two"},
		"a name like export":    {"export=one\nexported=two", "export=one|exported=two"},
		"blanks":                {"  A =  one two\t \n", "A=one two"},
		"dollars": {"A=pa$word$1$$\nB=\"pa$word\"\nC='pa$word'\nD=${A}",
			"A=pa$word$1$$ expands|B=pa$word expands|C=pa$word|D=${A} expands"},
		"dollars that are safe": {"A=$5,$.$\nB=\"\\$HOME\"", "A=$5,$.$|B=$HOME"},
		"comments after":        {"A=one # two\nB=one#two\nC='x' # y\nD=\"x\"\t# y\nE=a\t#b", "A=one|B=one#two|C=x|D=x|E=a"},
		"a hash in quotes":      {"A='one # two'\nB=\"#\"", "A=one # two|B=#"},
		"equals":                {"A=b=c==", "A=b=c=="},
		"quotes inside":         {"A=it's \"so\"", `A=it's "so"`},
		"escapes":               {`A="a\nb\tc\\d\"e\r"`, "A=a\nb\tc\\d\"e\r"},
		"no escapes in single":  {`A='a\nb\'`, `A=a\nb\`},
		"no escapes without":    {`A=a\nb\`, `A=a\nb\`},
		"many lines":            {"A='one\n  two\n'\nB=\"three\nfour\"\nC=x", "A=one\n  two\n|B=three\nfour|C=x"},
		"empty":                 {"A=\nB=''\nC=\"\"\nD= # none", "A=|B=|C=|D="},
		"nothing":               {"", ""},
		"no utf-8":              {"A=\xff\xfe", "A=\xff\xfe"},
		"a lone carriage":       {"A='a\rb'", "A=a\rb"},
	} {
		got, err := ReadEnvFile([]byte(c.text))
		var parsed []string
		for _, v := range got {
			s := v.Name + "=" + string(v.Value)
			if v.Expands {
				s += " expands"
			}
			parsed = append(parsed, s)
		}
		if text := strings.Join(parsed, "|"); text != c.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, text, err, c.want)
		}
	}
}

func TestReadEnvFileRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"no =":              {"A=one\nhunter2\n", "line 2: it has no ="},
		"yaml":              {"A: hunter2", "line 1: it has no ="},
		"names":             {"A=1\n\nB-C=hunter2\nd.e='\nx'\n1F=x\n", "names of secrets: B-C in line 3, d.e in line 4, 1F in line 6:"},
		"a line of a key":   {"A=x\nhunter2+hunter2==\n", "line 2: the name of a secret is invalid"},
		"its last line":     {"A=x\n2hunter2==\n", "line 2: the name of a secret"},
		"no name":           {"=hunter2", "line 1: a secret has no name"},
		"blank in the name": {"A B=hunter2", "line 1: the name"},
		"twice":             {"A=1\nB=2\nA=hunter2", "line 3: A was set in line 1"},
		"open single":       {"A='hunter2\nB=x", "line 1: the opening quote"},
		"open double":       {"A=\"hunter2\\\"", "line 1: the opening quote"},
		"backslash at end":  {"A=\"hunter2\\", "line 1: the opening quote"},
		"after the quote":   {"A='x'hunter2", "line 1: unexpected text"},
		"two values":        {"A=\"x\" 'hunter2'", "line 1: unexpected text"},
		"after many lines":  {"A='\n\n'hunter2", "line 1: unexpected text"},
		"backquotes":        {"A=`hunter2`", "line 1: a value in backquotes"},
		"escape":            {`A="C:\dir\hunter2"`, "line 1: a \\ and what follows it"},
		"many":              {"A=1\n" + numbered(maxVariables), "more than 1000 variables"},
		"long":              {strings.Repeat("#", MaxEnvFile+1), "more than"},
	} {
		got, err := ReadEnvFile([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") || got != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "A%d=hunter2\n", i)
	}
	return b.String()
}

// FuzzReadEnvFile: text in single quotes, or escaped in double ones, is read unchanged; nothing panics, nothing
// takes long, and no error quotes any text except names.
func FuzzReadEnvFile(f *testing.F) {
	for _, seed := range []string{"A=1\nB='2'\nexport C=\"\\n$x\" # c\n", "\ufeffA=\r\n", "A=\"\\", "A='\n'", "=", "A=`x`", "A=x #y"} {
		f.Add([]byte(seed))
	}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		got, err := ReadEnvFile(text)
		if !bytes.Equal(before, text) {
			t.Error("the text was changed")
		}
		if err != nil && (got != nil || len(err.Error()) > 400) {
			t.Errorf("got %v, %v", got, err)
		}
		total := 0
		for _, v := range got {
			if checkKey(v.Name) != nil || v.Line < 1 {
				t.Errorf("%q in line %d", v.Name, v.Line)
			}
			total += len(v.Value)
		}
		if total > len(text) {
			t.Errorf("%d bytes became %d", len(text), total)
		}
		if len(text) > 1000 {
			return
		}
		value := string(text)
		lines := fmt.Sprintf("A=\"%s\"\n", escape.Replace(value))
		want := 1
		if !strings.Contains(value, "'") && !strings.Contains(value, "\r\n") {
			lines, want = lines+"B='"+value+"' # as it is\n", 2
		}
		back, err := ReadEnvFile([]byte(lines))
		if err != nil || len(back) != want {
			t.Fatalf("%q: %d values, %v", lines, len(back), err)
		}
		for _, v := range back {
			if string(v.Value) != value {
				t.Errorf("%s: %q became %q", v.Name, value, v.Value)
			}
		}
	})
}
