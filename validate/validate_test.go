package validate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func check(t testing.TB, c Code) (Checked, *Error) {
	t.Helper()
	out, err := Check(t.Context(), c)
	if err == nil {
		return out, nil
	}
	bad, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error %v (%T), want an *Error", err, err)
	}
	return out, bad
}

func TestByExtension(t *testing.T) {
	tests := map[string]string{
		"a.py": Python, "a.js": Node, "a.mjs": Node, "a.cjs": Node, "a.ts": Node, "a.mts": Node,
		"a.cts": Node, "a.sh": Shell, "a.bash": Shell, "A.PY": Python, "dir.js/a.py": Python,
		`C:\x.py\a.sh`: Shell, ".py": Python,
		"": "", "a": "", "a.": "", "a.rb": "", "a.py.txt": "", "a.tsx": "", "py": "", "x.py/": "",
	}
	for name, want := range tests {
		k, ok := kindByExtension(name)
		got := k.language
		if got != want || ok != (want != "") {
			t.Errorf("byExtension(%q) = %q, %v; want %q", name, got, ok, want)
		}
	}
}

func TestShebang(t *testing.T) {
	for first, want := range map[string]struct {
		language    string
		interpreter []string
	}{
		"#!/usr/bin/env python3":                  {Python, []string{"python"}},
		"#! /opt/x/bin/python -u\r":               {Python, []string{"python", "-u"}},
		"#!/usr/bin/env -S node --no-warnings -r": {Node, []string{"node", "--no-warnings", "-r"}},
		"#!/bin/bash\t-e -u":                      {Shell, []string{"bash", "-e -u"}}, // the kernel splits once
		"#!/bin/sh":                               {Shell, []string{"sh"}},
		"#!/usr/bin/env Rscript":                  {R, []string{"r"}},
		"#!/usr/bin/python3.9":                    {Command, []string{"/usr/bin/python3.9"}},
		"#!/usr/bin/env ruby":                     {Command, []string{"ruby"}},
		"#!/usr/bin/perl -w":                      {Command, []string{"/usr/bin/perl", "-w"}},
		"#!/usr/bin/env -S 'a b' c":               {Command, []string{"/usr/bin/env", "-S 'a b' c"}},
		"#!/usr/bin/env A=1":                      {Command, []string{"/usr/bin/env", "A=1"}},
		"#!/usr/bin/env":                          {Command, []string{"/usr/bin/env"}},
		"#!":                                      {},
		" #!/bin/sh":                              {},
		"\ufeff#!/bin/sh":                         {},
		"#!" + strings.Repeat(" ", 300) + "sh":    {}, // beyond the bytes that the kernel reads
	} {
		got, err := Check(t.Context(), Code{Name: "tool", Source: []byte(first + "\n0\n")})
		if got.Language != want.language || !slices.Equal(got.Interpreter, want.interpreter) || (err == nil) != (want.language != "") {
			t.Errorf("%q: got %q %q %v, want %q %q", first, got.Language, got.Interpreter, err, want.language, want.interpreter)
		}
		if got, err := Check(t.Context(), Code{Name: "tool.sh", Source: []byte(first + "\n0\n")}); err != nil || got.Language != Shell ||
			got.Interpreter != nil {
			t.Errorf("%q in a .sh file: got %q %q %v", first, got.Language, got.Interpreter, err)
		}
	}
}

func TestNames(t *testing.T) {
	const script, module = "console.log(1)", "import 'fs'"
	tests := []struct {
		language, name, source string
		wantLanguage, want     string
	}{
		{"", "a.py", "print()", Python, "a.py"},
		{"python", "", "print()", Python, "script.py"},
		{"python", "-", "print()", Python, "script.py"},
		{"python", "a.js", "print()", Python, "a.js"}, // the language takes precedence over the extension
		{"python3", "..", "print()", Python, "script.py"},
		{"", "some/dir/a.py", "print()", Python, "a.py"},
		{"", `C:\dir\a.py`, "print()", Python, "a.py"},
		{"", "a.js", script, Node, "a.js"},
		{"", "a.js", module, Node, "a.mjs"},
		{"", "a.cjs", script, Node, "a.cjs"},
		{"", "a.mjs", script, Node, "a.mjs"},
		{"javascript", "", script, Node, "script.js"},
		{"node", "", module, Node, "script.mjs"},
		{"node", "a.txt", script, Node, "a.txt.js"},
		{"node", "a", module, Node, "a.mjs"},
		{"node", "a.ts", "let a: number = 1", Node, "a.js"},
		{"typescript", "", "let a: number = 1", Node, "script.js"},
		{"typescript", "", "export let a: number = 1", Node, "script.mjs"},
		{"ts", "a.js", "let a: number = 1", Node, "a.js.js"},
		{"", "a.ts", "await 1 as number", Node, "a.mjs"},
		{"", "a.ts", "import type { A } from 'a'; require('fs')", Node, "a.js"},
		{"", "a.ts", "import fs = require('fs'); fs.close", Node, "a.js"},
		{"", "a.mts", "let a: number = 1", Node, "a.mjs"},
		{"", "a.cts", "import fs from 'fs'; fs.close", Node, "a.cjs"},
		{"", "A.TS", "let a: number = 1", Node, "A.js"},
		{"bash", "", "echo", Shell, "script.sh"},
		{"shell", "a.bash", "echo", Shell, "a.bash"},
		{"SH", "a.txt", "echo", Shell, "a.txt"},
		{"", "a.r", "x <-", R, "a.r"},
		{"", "plot.R", "plot(1)", R, "plot.R"},
		{"Rscript", "", "1", R, "script.R"},
		{"R", "a.txt", "1", R, "a.txt"},
	}
	for _, tt := range tests {
		got, err := check(t, Code{Language: tt.language, Name: tt.name, Source: []byte(tt.source)})
		if err != nil || got.Language != tt.wantLanguage || got.Name != tt.want {
			t.Errorf("%q %q %q: got %s %s, %v; want %s %s", tt.language, tt.name, tt.source,
				got.Language, got.Name, err, tt.wantLanguage, tt.want)
		}
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		name         string
		code         Code
		line, column int
		want         string
	}{
		{"no language", Code{Name: "a.rb", Source: []byte("1")}, 0, 0, "--language python, node, shell or r"},
		{"no extension", Code{Name: "a", Source: []byte("1")}, 0, 0, "no extension"},
		{"unknown language", Code{Language: "cobol", Name: "a.py", Source: []byte("1")}, 0, 0, "use python, node, shell or r"},
		{"hostile language", Code{Language: "\x1b]0;x\a\n" + strings.Repeat("A", 1<<20), Source: []byte("1")}, 0, 0, "unknown language"},
		{"empty", Code{Name: "a.py"}, 0, 0, "empty"},
		{"too large", Code{Name: "a.py", Source: make([]byte, MaxSource+1)}, 0, 0, "10 MB"},
		{"NUL", Code{Name: "a.py", Source: []byte("a = 1\nb = '\x00'\n")}, 2, 6, "NUL"},
		{"NUL in shell", Code{Name: "a.sh", Source: []byte("echo \x00")}, 1, 6, "NUL"},
		{"NUL in node", Code{Name: "a.js", Source: []byte("'\x00'")}, 1, 2, "NUL"},
		{"UTF-16 little", Code{Name: "a.py", Source: []byte("\xff\xfep\x00")}, 0, 0, "UTF-16"},
		{"UTF-16 big", Code{Name: "a.py", Source: []byte("\xfe\xff\x00p")}, 0, 0, "UTF-16"},
		{"Latin-1 in Python", Code{Name: "a.py", Source: []byte("# \u00e4\na = '\xe4'\n")}, 2, 6, "0xe4 is not UTF-8"},
		{"cookie too late", Code{Name: "a.py", Source: []byte("\n\n# coding: latin-1\na = '\xe4'\n")}, 4, 6, "0xe4"},
		{"cookie below code", Code{Name: "a.py", Source: []byte("a = 1\n# coding: latin-1\na = '\xe4'\n")}, 3, 6, "0xe4"},
		{"cookie in a string", Code{Name: "a.py", Source: []byte("a = '# coding: latin-1 \xe4'\n")}, 1, 24, "0xe4"},
		{"JavaScript", Code{Name: "a.js", Source: []byte("let a = 1;\n\tlet b = ;\n")}, 2, 10, `Unexpected ";"`},
		{"JavaScript, wide letters", Code{Name: "a.js", Source: []byte("let \u4f60\u597d = ;")}, 1, 10, `Unexpected ";"`},
		{"JavaScript, unclosed", Code{Name: "a.js", Source: []byte("function f() {\n\n")}, 1, 15, "end of file"},
		{"JavaScript, unclosed expression", Code{Name: "a.js", Source: []byte("f(1,\n")}, 1, 5, "end of file"},
		{"JavaScript, no block", Code{Name: "a.js", Source: []byte("function f()")}, 1, 13, "end of file"},
		{"JavaScript, our own end", Code{Name: "a.js", Source: []byte("{;export{};)")}, 1, 3, "export"},
		{"JavaScript, our own end as a line", Code{Name: "a.js", Source: []byte("let = 1;\nlet 1 = 2\n;export{};)\n")}, 2, 5, "1"},
		{"JavaScript, unclosed comment", Code{Name: "a.js", Source: []byte("/* a")}, 1, 5, `comment`},
		{"JavaScript, unclosed string", Code{Name: "a.js", Source: []byte("'a")}, 1, 3, `Unterminated string`},
		{"JavaScript, unclosed template", Code{Name: "a.js", Source: []byte("`a")}, 1, 3, `Unterminated`},
		{"JSX", Code{Name: "a.js", Source: []byte("let a = <div/>")}, 1, 9, "JSX"},
		{"await in a function", Code{Name: "a.js", Source: []byte("function f() { await g() }")}, 1, 16, "async"},
		{"TypeScript", Code{Name: "a.ts", Source: []byte("let a: number = 1\nlet b: = 2")}, 2, 8, `Unexpected "="`},
		{"module in .cts", Code{Name: "a.cts", Source: []byte("await 1")}, 1, 1, "await"},
		{"large JavaScript", Code{Name: "a.js", Source: []byte(strings.Repeat("f();\n", 10_000) + "let b = ;")}, 10_001, 9, `Unexpected ";"`},
		{"shell, unclosed", Code{Name: "a.sh", Source: []byte("echo a\necho 'b\n")}, 2, 6, "closing quote"},
		{"shell, no fi", Code{Name: "a.sh", Source: []byte("if true; then\necho\n")}, 1, 1, "fi"},
		{"shell, stray done", Code{Name: "a.sh", Source: []byte("echo\ndone\n")}, 2, 1, "done"},
		{"large shell", Code{Name: "a.sh", Source: []byte(strings.Repeat("echo\n", 10_000) + "done")}, 10_001, 1, "done"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := check(t, tt.code)
			if err == nil {
				t.Fatal("accepted")
			}
			p := err.Problems[0]
			if p.Line != tt.line || p.Column != tt.column || !strings.Contains(p.Text, tt.want) {
				t.Errorf("got %d:%d %q, want %d:%d %q", p.Line, p.Column, p.Text, tt.line, tt.column, tt.want)
			}
			wantSafe(t, err.Error())
		})
	}
}

// wantSafe fails for text that could drive a terminal, or fill it.
func wantSafe(t *testing.T, text string) {
	t.Helper()
	if len(text) > 8<<10 {
		t.Errorf("a message of %d bytes", len(text))
	}
	for _, r := range text {
		if r != '\n' && (r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069) {
			t.Errorf("%U in %q", r, text)
			return
		}
	}
}

func TestSnippet(t *testing.T) {
	tests := []struct{ name, source, line string }{
		{"tab and wide letters", "let \u4f60\u597d = ;\tx", "    1 | let \u4f60\u597d = ; x"},
		{"second line", "let a = 1\nlet b = ;\nlet c", "    2 | let b = ;"},
		{"CR LF", "let a = 1\r\nlet b = ;\r\n", "    2 | let b = ;"},
		{"escapes", "'\x1b[31m\u202e' + ;", "    1 | '\ufffd[31m\ufffd' + ;"},
		{"long line", strings.Repeat("a+", 5000) + "; " + strings.Repeat("b", 5000),
			"    1 | ..." + strings.Repeat("a+", 30) + "; " + strings.Repeat("b", 58) + "..."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := check(t, Code{Name: "a.js", Source: []byte(tt.source)})
			if err == nil {
				t.Fatal("accepted")
			}
			line, caret, _ := strings.Cut(err.Problems[0].Snippet, "\n")
			if line != tt.line {
				t.Errorf("got  %q\nwant %q", line, tt.line)
			}
			if column := terminalWidth(line[:strings.IndexByte(line, ';')]); len(caret) != column+1 || !strings.HasSuffix(caret, " ^") {
				t.Errorf("the caret is not below the place:\n%s\n%s", line, caret)
			}
		})
	}
}

func TestAcceptedAsSent(t *testing.T) {
	tests := []struct {
		name, file, source string
		warning            string
	}{
		{"only a comment", "a.py", "# nothing", ""},
		{"only a blank", "a.py", " ", ""},
		{"Python's own errors", "a.py", "def (:", ""},
		{"byte order mark", "a.py", "\ufeffprint()", ""},
		{"coding cookie", "a.py", "# -*- coding: latin-1 -*-\na = '\xe4'\n", ""},
		{"coding cookie, second line", "a.py", "#!/usr/bin/python3\r\n# vim: set fileencoding=latin-1 :\r\na = '\xe4'\n", ""},
		{"ten megabytes", "a.py", strings.Repeat("#", MaxSource), ""},
		{"hashbang", "a.js", "#!/usr/bin/env node\nreturn 1", ""},
		{"Latin-1 in Node", "a.js", "// \xe4\nf()", "0xe4"},
		{"await as a name", "a.js", "var await = 1", ""},
		{"await as a label", "a.js", "await: 1", ""},
		{"call on the left", "a.js", "f() = 1", ""},
		{"Latin-1 in shell", "a.sh", "echo \xe4", "0xe4"},
		{"below exit", "a.sh", "echo a\nexit 0\nif then 'x", "followed by a statement"},
		{"unknown to our parser", "a.sh", "echo ${x[1 2]}", "operator"},
		{"windows", "a.sh", "echo a\r\necho b\r\n", "CR LF"},
		{"ten megabytes of data below", "a.sh", "exit\n" + strings.Repeat("'", 9<<20+1), "closing quote"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := check(t, Code{Name: tt.file, Source: []byte(tt.source)})
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			if string(got.Source) != tt.source || got.Name != tt.file {
				t.Error("the script was changed")
			}
			var texts []string
			for _, w := range got.Warnings {
				texts = append(texts, w.Text)
			}
			if all := strings.Join(texts, "; "); tt.warning == "" && all != "" || !strings.Contains(all, tt.warning) {
				t.Errorf("warnings %q, want %q", all, tt.warning)
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []string{"a.py", "a.ts", "a.js", "a.sh"} {
		if _, err := Check(ctx, Code{Name: name, Source: []byte("1")}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want %v", name, err, context.Canceled)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range []string{"print(1)", "import a from 'a'", "if x; then", "\xff", "let a = `${1}`", "#!x\n<!-- a", "await (1)",
		"import.meta"} {
		f.Add("a.js", s)
		f.Add("a.sh", s)
		f.Add("a.py", s)
	}
	f.Fuzz(func(t *testing.T, name, source string) {
		if k, _ := kindByExtension(name); k.typescript || len(source) > maxInProcess || importMeta().MatchString(source) {
			t.Skip("goes to another process")
		}
		got, bad := check(t, Code{Name: name, Source: []byte(source)})
		if bad != nil {
			if len(bad.Problems) == 0 || bad.Problems[0].Text == "" {
				t.Errorf("refused without a reason: %+v", bad)
			}
			return
		}
		if string(got.Source) != source {
			t.Error("the script was changed")
		}
		if got.Name == "" || strings.ContainsAny(got.Name, "/\\") {
			t.Errorf("name %q", got.Name)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	js := "const fs = require('fs');\nfunction f(a, b) {\n  return a.map((x) => x * b).filter(Boolean);\n}\nconsole.log(f([1, 2, 3], 4));\n"
	for _, bb := range []struct{ name, file, source string }{
		{"Python", "a.py", strings.Repeat("print('hello')\n", 100)},
		{"Shell", "a.sh", strings.Repeat("for i in 1 2 3; do echo \"$i\"; done\n", 10)},
		{"JavaScript", "a.js", js},
		{"JavaScript module", "a.js", js + "export { f };\n"},
		{"JavaScript 13 KB", "a.js", strings.Repeat("{"+js+"}", 100)},
		{"JavaScript 1 MB", "a.js", strings.Repeat("{"+js+"}", 8000)},
		{"TypeScript", "a.ts", js},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Check(b.Context(), Code{Name: bb.file, Source: []byte(bb.source)})
			}
		})
	}
}
