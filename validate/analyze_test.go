package validate

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/validate/diff"
)

// checkPatch applies a diff with this machine's tools.
func checkPatch(t *testing.T, before, diff, after string) {
	t.Helper()
	git := hosttest.Program(t, "git")
	dir := t.TempDir()
	file := filepath.Join(dir, "x")
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	diff = strings.Replace(diff, "--- before\n+++ after\n", "--- a/x\n+++ b/x\n", 1)
	cmd := exec.Command(git, "apply", "--whitespace=nowarn", "-")
	cmd.Dir = dir
	cmd.Env = []string{"GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir), "PATH=" + os.Getenv("PATH")}
	cmd.Stdin = strings.NewReader(diff)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v %s\n%s", err, out, diff)
	}
	if got, _ := os.ReadFile(file); string(got) != after {
		t.Errorf("the diff makes %q, want %q", got, after)
	}
}

func TestDiff(t *testing.T) {
	ten := strings.Repeat("a\n", 4) + "b\n" + strings.Repeat("a\n", 5)
	tests := []struct{ name, before, after string }{
		{"first line", "a\n", "x\na\n"},
		{"middle", ten, "a\na\na\na\nx\ny\nb\n" + strings.Repeat("a\n", 5)},
		{"last", "a\nb\n", "a\nb\nc\n"},
		{"no end of line", "a", "x\na"},
		{"end of line added", "a", "a\n"},
		{"CR LF", "a\r\nb\r\n", "x\r\na\r\nb\r\n"},
		{"changed line", "a\nb\nc\n", "a\nx; b\nc\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkPatch(t, tt.before, diff.Unified("before", tt.before, "after", tt.after), tt.after)
		})
	}
}

func TestNodeMissing(t *testing.T) {
	tests := []struct{ name, file, source, want string }{
		{"module", "a.js", "fs.readFileSync('a')", `const fs = require("node:fs");`},
		{"loaded", "a.js", "const fs = require('fs'); fs.readFileSync('a')", ""},
		{"loaded in another function", "a.js", "function f() { const fs = 1 } fs.x()", `const fs = require("node:fs");`},
		{"member of a variable", "a.js", "path.points.push(1)", ""},
		{"path", "a.js", "path.join('a')", `const path = require("node:path");`},
		{"in a module", "a.mjs", "export const x = path.join('a')", `import path from "node:path";`},
		{"imported", "a.mjs", "import * as path from 'path'; path.join('a')", ""},
		{"by its signs a module", "a.js", "import a from 'a'; os.cpus()", `import os from "node:os";`},
		{"web crypto", "a.js", "crypto.randomUUID(); crypto.subtle", ""},
		{"crypto", "a.js", "crypto.createHash('md5')", `const crypto = require("node:crypto");`},
		{"function", "a.js", "execSync('ls')", `const { execSync } = require("node:child_process");`},
		{"function in a module", "a.mjs", "readFileSync('x')", `import { readFileSync } from "node:fs";`},
		{"class", "a.js", "class A extends EventEmitter {}", `const { EventEmitter } = require("node:events");`},
		{"typeof", "a.js", "if (typeof fs !== 'undefined') fs.x()", ""},
		{"text", "a.js", "'fs.readFileSync()' // path.join()", ""},
		{"parameter", "a.js", "(fs) => fs.readFileSync('a')", ""},
		{"var below", "a.js", "fs.x(); var fs = 1", ""},
		{"global set", "a.js", "fs = f(); fs.x()", ""},
		{"TypeScript", "a.ts", "const x: string = fs.readFileSync('a', 'utf8')", `const fs = require("node:fs");`},
		{"TypeScript module", "a.ts", "export const x: string = path.join('a')", `import path from "node:path";`},
		{"destructured", "a.js", "const { fs } = x; fs.a()", ""},
		{"caught", "a.js", "try {} catch (path) { path.join() }", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Analyze(t.Context(), Code{Name: tt.file, Source: []byte(tt.source)}, Options{})
			if err != nil || !r.Valid {
				t.Fatalf("%v %+v", err, r)
			}
			var got []string
			for _, m := range r.Missing {
				got = append(got, m.Statement)
			}
			if all := strings.Join(got, "; "); all != tt.want {
				t.Errorf("got %q, want %q", all, tt.want)
			}
		})
	}
}

func TestNodeFixed(t *testing.T) {
	const fs, osImport = "const fs = require(\"node:fs\");", "import os from \"node:os\";"
	tests := []struct{ name, file, source, want string }{
		{"plain", "a.js", "fs.x()\n", fs + "\nfs.x()\n"},
		{"hashbang", "a.js", "#!/usr/bin/env node\nfs.x()\n", "#!/usr/bin/env node\n" + fs + "\nfs.x()\n"},
		{"directive", "a.js", "'use strict';\nfs.x()\n", "'use strict';\n" + fs + "\nfs.x()\n"},
		{"directive on the line", "a.js", "'use strict'; fs.x()\n", "'use strict'; " + fs + " fs.x()\n"},
		{"comment", "a.js", "// a\n\n/* b */\nfs.x()\n", "// a\n\n/* b */\n" + fs + "\nfs.x()\n"},
		{"CR LF", "a.js", "// a\r\nfs.x()\r\n", "// a\r\n" + fs + "\r\nfs.x()\r\n"},
		{"module", "a.mjs", "import a from 'a'\nos.x(a)\n", osImport + "\nimport a from 'a'\nos.x(a)\n"},
		{"TypeScript", "a.ts", "const a: number = 1\nfs.x(a)\n", fs + "\nconst a: number = 1\nfs.x(a)\n"},
		{"together", "a.js", "readFileSync(existsSync('a'))\n", "const { readFileSync } = require(\"node:fs\");\nconst { existsSync } = " +
			"require(\"node:fs\");\nreadFileSync(existsSync('a'))\n"},
		{"byte order mark", "a.js", "\ufefffs.x()\n", "\ufeff" + fs + "\nfs.x()\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Analyze(t.Context(), Code{Name: tt.file, Source: []byte(tt.source)}, Options{Fix: true})
			if err != nil || r.Fixed != tt.want {
				t.Fatalf("got %q, want %q; %+v %v", r.Fixed, tt.want, r, err)
			}
			checkPatch(t, tt.source, r.Diff, r.Fixed)
			again, err := Analyze(t.Context(), Code{Name: tt.file, Source: []byte(r.Fixed)}, Options{Fix: true})
			if err != nil || !again.Valid || len(again.Missing) > 0 || again.Fixed != "" {
				t.Errorf("what was fixed is not right: %+v", again)
			}
		})
	}
}

// TestPlaces checks positions of findings below types, modules and newer syntax.
func TestPlaces(t *testing.T) {
	tests := []struct {
		name, file, source string
		line, column       int
	}{
		{"plain", "a.js", "f();\n  eval(x)", 2, 3},
		{"wide letters", "a.js", "'\u4f60\u597d'; eval(x)", 1, 7},
		{"first byte", "a.js", "eval(x)", 1, 1},
		{"parenthesis first", "a.js", "f();\n(0, eval)(x)", 2, 5},
		{"template", "a.js", "`\n${f(`${1}`)}`;\n eval(`${x}`)", 3, 2},
		{"module", "a.mjs", "import {\n  a as b,\n} from 'a';\nexport { b };\nexport default 1;\neval(x)", 6, 1},
		{"exports", "a.mjs", "export * from 'a'\nexport class A {}\nexport default class {}\n;eval(x)", 4, 2},
		{"lowered", "a.js", "async function* f() {}\nasync function g() { for await (const x of f()) {} }\nusing: {}\nlet o = { async *f() {} " +
			"};\n\n eval(x)", 6, 2},
		{"TypeScript", "a.ts", "enum E { A }\ntype T = {\n  a: string\n}\n/* \u4f60 */ eval(x)", 5, 9},
		{"CR LF", "a.js", "f();\r\neval(x)\r\n", 2, 1},
		{"hashbang", "a.js", "#!/usr/bin/env node\neval(x)", 2, 1},
		{"shell", "a.sh", "true\nif x; then rm -rf /; fi", 2, 12},
		{"top-level await", "a.mjs", "await f();\nimport('a');\nimport.meta.url;\neval(x)", 4, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := Analyze(t.Context(), Code{Name: tt.file, Source: []byte(tt.source)}, Options{RulesOff: []string{"node-dynamic-require"}})
			if err != nil || len(r.Dangers) != 1 {
				t.Fatalf("got %+v, %v", r, err)
			}
			if d := r.Dangers[0]; d.Line != tt.line || d.Column != tt.column || !strings.Contains(d.Snippet, "^") {
				t.Errorf("got %d:%d\n%s\nwant %d:%d", d.Line, d.Column, d.Snippet, tt.line, tt.column)
			}
		})
	}
}

func TestReport(t *testing.T) {
	r, err := Analyze(t.Context(), Code{Name: "a.js", Source: []byte("fetch(u); eval(x)")}, Options{})
	if err != nil || len(r.AtLeast(Info)) != 2 || len(r.AtLeast(Medium)) != 1 || len(r.AtLeast(High)) != 0 || len(r.AtLeast("")) != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	for _, c := range []Code{{Name: "a.rb"}, {Name: "a.js"}, {Name: "a.js", Source: []byte("let let")},
		{Name: "a.ts", Source: []byte("let a: = 1")},
		{Name: "a.sh", Source: []byte("echo\ndone\n")}, {Name: "a.py", Source: []byte("\x00")}} {
		r, err := Analyze(t.Context(), c, Options{Fix: true})
		if err != nil || r.Valid || len(r.Problems) == 0 || len(r.Dangers) != 0 {
			t.Errorf("%+v: got %+v, %v", c, r, err)
		}
	}
	r, err = Analyze(t.Context(), Code{Name: "a.py", Source: []byte("1")}, Options{})
	if err != nil || !r.Valid || len(r.Notes) == 0 || len(r.Dangers) != 1 || r.Dangers[0].Rule != unread {
		t.Errorf("without an interpreter: got %+v, %v", r, err)
	}
}

// brokenInterpreter is an interpreter with invalid answers.
type brokenInterpreter struct {
	answer string
	err    error
}

func (b brokenInterpreter) Analyse(context.Context, []byte) ([]byte, error) {
	return []byte(b.answer), b.err
}

// TestHostileAnswers has the interpreter answer as if a source controlled it.
func TestHostileAnswers(t *testing.T) {
	source := []byte("print(1)\n")
	for _, answer := range []string{
		`{"calls":[{"path":"no-such","at":1},{"path":"sudo","at":1},{"path":"eval","at":-5},{"path":"os.kill"}]}`,
		`{"calls":[{"path":"eval","at":1000000000}]}`, `{"calls":[{"path":"os.system","args":["` + strings.Repeat("$(", 8<<10) + `"]}]}`,
		`{"missing":[{"name":"a","statement":"import os; os.system('x')","at":1}],"insert":99}`,
		`{"missing":[{"name":"a","statement":"import a","at":-1}],"insert":-99}`,
		`{"problems":[{"at":5,"text":"\u001b]0;x\u0007"},{"at":-9}],"notes":["\u001b[31m"]}`,
		`{"unread":"` + strings.Repeat("x", 1<<20) + `"}`, `{}`,
	} {
		r, err := Analyze(t.Context(), Code{Name: "a.py", Source: source}, Options{Fix: true, Python: brokenInterpreter{answer, nil}})
		if err != nil {
			t.Fatalf("%.80s: %v", answer, err)
		}
		if strings.Contains(r.Fixed, "system") || slices.ContainsFunc(r.Dangers,
			func(d Danger) bool { return !strings.HasPrefix(d.Rule, "python-") && d.Rule != unread }) {
			t.Errorf("%.80s: got %+v", answer, r)
		}
		for _, p := range r.Problems {
			wantSafe(t, p.Text+p.Snippet)
		}
		for _, n := range r.Notes {
			wantSafe(t, n)
		}
	}
	for _, b := range []brokenInterpreter{{"no json", nil}, {"", errors.New("gone")}} {
		if _, err := Analyze(t.Context(), Code{Name: "a.py", Source: source}, Options{Python: b}); err == nil {
			t.Errorf("%+v: no error", b)
		}
	}
}

func TestAnalyzeCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Analyze(ctx, Code{Name: "a.ts", Source: []byte(forever)}, Options{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestAnalyzeBombs sends sources that keep the parser or the inspection busy.
func TestAnalyzeBombs(t *testing.T) {
	tests := []struct{ name, file, source string }{
		{"arrows in parameters", "a.js", strings.Repeat("(a=", 30) + "1" + strings.Repeat(")=>1", 30)},
		{"async arrows in parameters", "a.js", strings.Repeat("async(a=", 30) + "1" + strings.Repeat(")=>1", 30)},
		{"arrows in parameters, with text", "a.js", strings.Repeat("(a='(',b=", 30) + "1" + strings.Repeat(")=>1", 30)},
		{"arrows in parameters, comments", "a.js", strings.Repeat("(a=", 30) + "1" + strings.Repeat(")/*()*/=>1", 30)},
		{"labels", "a.js", strings.Repeat("{a:", 4000) + "1" + strings.Repeat("}", 4000)},
		{"parentheses", "a.js", strings.Repeat("(", 8000) + "1" + strings.Repeat(")", 8000)},
		{"exports", "a.mjs", strings.Repeat("export let a=1\n", 500)},
		{"imports", "a.mjs", strings.Repeat("import 'a'\n", 1000)},
		{"dynamic imports", "a.js", strings.Repeat("import('a')\n", 1000)},
		{"names of names", "a.js", strings.Repeat("a=b+b;b=a+a;", 1000) + "eval(a)"},
		{"a byte in a comment", "a.js", "--> only heref(\xea"},
		{"objects in evals", "a.js", strings.Repeat("eval({a:'x',b:", 700) + "1" + strings.Repeat("})", 700)},
		{"evals", "a.js", strings.Repeat("eval(x)\n", 1500)},
		{"sums", "a.js", "eval(" + strings.Repeat("'a'+", 3000) + "'a')"},
		{"aliases", "a.sh", strings.Repeat("a=$b$b;b=$a$a;", 500) + "$a -rf /"},
		{"pipes", "a.sh", strings.Repeat("sh|", 5000) + "sh"},
		{"nested commands", "a.sh", "sh -c 'sh -c \"sh -c \\\"rm -rf /\\\"\"'"},
		{"functions", "a.sh", strings.Repeat("f(){ ", 3000) + ":;" + strings.Repeat("}", 3000)},
		{"large", "a.js", strings.Repeat("f(a, (b) => { g(b) });\n", 40_000) + "eval(x)"},
		{"large shell", "a.sh", strings.Repeat("curl a | sh\n", 80_000)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := Analyze(t.Context(), Code{Name: tt.file, Source: []byte(tt.source)}, Options{Fix: true})
			t.Logf("%d bytes: %d dangers %.200v", len(tt.source), len(r.Dangers), r.Notes)
			if tt.name == "objects in evals" && len(r.Notes) == 0 {
				t.Error("all of it was looked at, which takes quadratic time")
			}
			if err != nil || tt.name == "large" && slices.ContainsFunc(r.Dangers, func(d Danger) bool { return d.Rule == unread }) {
				t.Error(err, r.Notes)
			}
		})
	}
}

func FuzzAnalyze(f *testing.F) {
	for _, tt := range nodeTriggers() {
		f.Add("a.js", tt.yes[0])
		f.Add("a.mjs", tt.yes[len(tt.yes)-1])
	}
	for _, tt := range shellTriggers() {
		f.Add("a.sh", tt.yes[0])
	}
	for _, s := range oddities {
		f.Add("a.js", s)
	}
	f.Fuzz(func(t *testing.T, name, source string) {
		if k, _ := kindByExtension(name); k.typescript || len(source) > maxInProcess || importMeta().MatchString(source) {
			t.Skip("goes to another process")
		}
		r, err := Analyze(t.Context(), Code{Name: name, Source: []byte(source)}, Options{Fix: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Dangers) > maxDangers || r.Valid != (len(r.Problems) == 0) || (r.Fixed == "") != (r.Diff == "") {
			t.Errorf("odd report %+v", r)
		}
		for _, n := range r.Notes {
			if strings.Contains(n, "our parser failed") {
				t.Errorf("it panicked: %s", n)
			}
		}
	})
}

func BenchmarkAnalyze(b *testing.B) {
	js := "const fs = require('fs');\nfunction f(a, b) {\n  return a.map((x) => x * b).filter(Boolean);\n}\nconsole.log(f([1, 2, 3], 4));\n"
	for _, bb := range []struct{ name, file, source string }{
		{"JavaScript 5 KB", "a.js", strings.Repeat("{"+js+"}\n", 40)},
		{"JavaScript module 5 KB", "a.mjs", "import a from 'a';\nimport { b } from 'b';\n" + strings.Repeat("{"+js+"}\n", 40) +
			"export { f };\nexport default 1;\n"},
		{"Shell 5 KB", "a.sh", strings.Repeat("for i in 1 2 3; do echo \"$i\" | grep x > /tmp/y; done\n", 95)},
		{"TypeScript 5 KB", "a.ts", strings.Repeat("{"+js+"}\n", 40)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Analyze(b.Context(), Code{Name: bb.file, Source: []byte(bb.source)}, Options{Fix: true})
			}
		})
	}
}
